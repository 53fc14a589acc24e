//! Heat maps: link load over time as small indexed images inside the SVG.
//!
//! A fabric has hundreds of links and bins. A rectangle for each would need many megabytes; a pixel
//! needs half a byte. The image is written uncompressed, which any reader of PNG accepts.

use super::{LEFT, RIGHT, Scale, WIDTH, esc, open, put};

/// Sixteen steps of viridis: uniform in brightness, safe for colour-blind readers and for grey
/// printers.
const VIRIDIS: [u32; 16] = [
    0x44_01_54, 0x48_1a_6c, 0x47_2f_7d, 0x41_44_87, 0x39_56_8c, 0x31_68_8e, 0x2a_78_8e, 0x23_88_8e, 0x1f_98_8b,
    0x22_a8_84, 0x35_b7_79, 0x54_c5_68, 0x7a_d1_51, 0xa5_db_36, 0xd2_e2_1b, 0xfd_e7_25,
];

/// One strip of a heat map.
pub(in crate::report) struct Raster {
    /// Content of its rows.
    pub name: String,
    /// Cells per row.
    pub columns: usize,
    /// Values, row-major.
    pub values: Vec<f32>,
}

impl Raster {
    fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }
}

/// Draws strips above each other over a common time axis; `top` is the value of the brightest
/// colour.
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
            base64(&png(strip, top))
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

/// Draws the colour scale of [`heat`], from 0 to `top` (a share).
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
fn png(strip: &Raster, top: f64) -> Vec<u8> {
    let (columns, rows) = (strip.columns, strip.rows());
    let mut pixels = Vec::with_capacity(rows * (columns / 2 + 2));
    for row in strip.values.chunks_exact(columns.max(1)) {
        pixels.push(0); // no filter
        for pair in row.chunks(2) {
            let high = level(pair[0], top) << 4;
            pixels.push(high | pair.get(1).map_or(0, |value| level(*value, top)));
        }
    }
    let mut header = Vec::new();
    header.extend((columns as u32).to_be_bytes());
    header.extend((rows as u32).to_be_bytes());
    header.extend([4, 3, 0, 0, 0]); // four bits, palette, deflate, no filter, not interlaced
    let palette: Vec<u8> = VIRIDIS.iter().flat_map(|colour| colour.to_be_bytes()[1..].to_vec()).collect();
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in
        [(b"IHDR", header.as_slice()), (b"PLTE", &palette), (b"IDAT", &stored_zlib(&pixels)), (b"IEND", &[])]
    {
        chunk(&mut out, name, data);
    }
    out
}

fn level(value: f32, top: f64) -> u8 {
    let share = f64::from(value) / top;
    if share.is_finite() { (share * 16.0).clamp(0.0, 15.0) as u8 } else { 0 }
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let start = out.len();
    out.extend(name);
    out.extend(data);
    let sum = crc32(&out[start..]);
    out.extend(sum.to_be_bytes());
}

/// Encodes a zlib stream of stored blocks.
fn stored_zlib(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let blocks = data.len().div_ceil(0xffff).max(1);
    for index in 0..blocks {
        let block = &data[index * 0xffff..data.len().min((index + 1) * 0xffff)];
        let length = block.len() as u16;
        out.push(u8::from(index + 1 == blocks));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// Encodes standard base64 with padding.
pub(in crate::report) fn base64(data: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4);
    for triple in data.chunks(3) {
        let bits = triple.iter().enumerate().fold(0u32, |bits, (i, byte)| bits | u32::from(*byte) << (16 - 8 * i));
        for position in 0..4 {
            let symbol = ALPHABET[(bits >> (18 - 6 * position) & 63) as usize];
            out.push(if position <= triple.len() { symbol as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_base64_are_the_standard_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(stored_zlib(b"Wikipedia")[14 + 2..], 0x11e6_0398u32.to_be_bytes());
        assert_eq!([base64(b"a"), base64(b"ab"), base64(b"abc")], ["YQ==", "YWI=", "YWJj"]);
    }

    #[test]
    fn an_image_has_a_row_per_link_and_two_cells_per_byte() {
        let strip = Raster { name: String::new(), columns: 5, values: vec![0.5; 15] };
        let image = png(&strip, 1.0);
        assert_eq!(image[16..24], [0, 0, 0, 5, 0, 0, 0, 3]);
        assert_eq!((level(0.0, 1.0), level(0.5, 1.0), level(7.0, 1.0), level(f32::NAN, 1.0)), (0, 8, 15, 0));
    }
}
