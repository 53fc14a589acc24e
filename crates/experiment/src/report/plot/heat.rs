//! Heat maps: link load over time as small indexed images inside the SVG.
//!
//! A fabric has hundreds of links and bins. A rectangle for each would need many megabytes; a pixel
//! needs at most half a byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{LEFT, RIGHT, Scale, WIDTH, esc, open, put};

/// Sixteen steps of viridis: uniform in brightness, safe for colour-blind readers and for grey
/// printers.
const VIRIDIS: [u32; 16] = [
    0x44_01_54, 0x48_1a_6c, 0x47_2f_7d, 0x41_44_87, 0x39_56_8c, 0x31_68_8e, 0x2a_78_8e, 0x23_88_8e, 0x1f_98_8b,
    0x22_a8_84, 0x35_b7_79, 0x54_c5_68, 0x7a_d1_51, 0xa5_db_36, 0xd2_e2_1b, 0xfd_e7_25,
];

pub(in crate::report) struct Raster {
    pub name: String,
    pub columns: usize,
    pub values: Vec<f32>,
}

impl Raster {
    fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }
}

pub(in crate::report) fn heat(label: &str, x: &Scale, x_title: &str, strips: &[Raster], top: f64) -> String {
    const STRIP: f64 = 92.0;
    const GAP: f64 = 32.0;
    let end = GAP + strips.len() as f64 * (STRIP + GAP) - GAP;
    let mut out = open(label, end + 58.0);
    let (left, width) = (LEFT - 50.0, WIDTH - LEFT - RIGHT + 50.0);
    for (index, strip) in strips.iter().enumerate() {
        let y = GAP + index as f64 * (STRIP + GAP);
        put!(out, r#"<text class="title" x="{left}" y="{:.1}">{}</text>"#, y - 8.0, esc(&strip.name));
        put!(
            out,
            r#"<image x="{left}" y="{y:.1}" width="{width}" height="{STRIP}" preserveAspectRatio="none" href="data:image/png;base64,{}"/>"#,
            BASE64.encode(encode_png(strip, top))
        );
    }
    for tick in x.ticks() {
        let at = left + x.fraction(*tick) * width;
        put!(out, r#"<path class="axis" d="M{at:.1} {end:.1}v5"/>"#);
        put!(out, r#"<text class="tx" x="{at:.1}" y="{:.1}">{}</text>"#, end + 25.0, x.unit.label(*tick));
    }
    put!(
        out,
        r#"<text class="title tx" x="{:.1}" y="{:.1}">{}</text></svg>"#,
        left + width / 2.0,
        end + 50.0,
        esc(x_title)
    );
    out
}

pub(in crate::report) fn ramp(top: f64) -> String {
    let mut out =
        String::from(r#"<svg class="ramp" viewBox="0 0 320 44" role="img" aria-label="Colour scale: dark violet is "#);
    put!(out, "idle, bright yellow is {:.0} % or more of the link rate\">", top * 100.0);
    for (step, colour) in VIRIDIS.iter().enumerate() {
        put!(out, r##"<rect x="{}" y="4" width="20.5" height="14" fill="#{colour:06x}"/>"##, step * 20);
    }
    for (at, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let percent = super::super::text::short(at * top * 100.0);
        put!(out, r#"<text x="{}" y="36" text-anchor="{anchor}">{percent}&#160;%</text>"#, at * 320.0);
    }
    out.push_str("</svg>");
    out
}

/// Encodes an indexed PNG of four bits per pixel.
fn encode_png(strip: &Raster, top: f64) -> Vec<u8> {
    let pair = |pair: &[f32]| level(pair[0], top) << 4 | pair.get(1).map_or(0, |value| level(*value, top));
    let pixels: Vec<u8> =
        strip.values.chunks_exact(strip.columns.max(1)).flat_map(|row| row.chunks(2).map(pair)).collect();
    let palette: Vec<u8> = VIRIDIS.iter().flat_map(|colour| colour.to_be_bytes()[1..].to_vec()).collect();
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, strip.columns as u32, strip.rows() as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Four);
    encoder.set_palette(palette);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    // A PNG has at least one row and column: a strip without them has no image.
    written.map_or_else(|_| Vec::new(), |()| out)
}

fn level(value: f32, top: f64) -> u8 {
    let share = f64::from(value) / top;
    if share.is_finite() { (share * 16.0).clamp(0.0, 15.0) as u8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_row_per_link_and_two_cells_per_byte() {
        let strip = Raster { name: String::new(), columns: 5, values: vec![0.5; 15] };
        let image = encode_png(&strip, 1.0);
        let mut reader = png::Decoder::new(std::io::Cursor::new(image)).read_info().expect("a PNG");
        assert_eq!((reader.info().width, reader.info().height, reader.info().bits_per_pixel()), (5, 3, 4));
        assert_eq!(
            reader.info().palette.as_deref().map(|palette| (palette.len(), &palette[..3])),
            Some((48, &[0x44, 1, 0x54][..]))
        );
        let mut pixels = [0; 9];
        reader.next_frame(&mut pixels).expect("its pixels");
        assert_eq!(pixels, [0x88, 0x88, 0x80].repeat(3)[..]);
        assert_eq!((level(0.0, 1.0), level(0.5, 1.0), level(7.0, 1.0), level(f32::NAN, 1.0)), (0, 8, 15, 0));
    }
}
