//! The `[transport]` section, read into [`TransportConfig`].

use net::Bandwidth;
use sim::{Annulus, Cubic, Dcqcn, Dctcp, Rdma, RdmaRecovery, Spray, TransportConfig, TransportKind, UdpRate};

use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;

pub(crate) fn transport(section: &Section<'_>) -> Result<TransportConfig, FileError> {
    let default = TransportConfig::default();
    let kind = transport_kind(section)?;
    let config = TransportConfig {
        kind,
        sack: section.flag("sack")?.unwrap_or(matches!(kind, TransportKind::Cubic(_))),
        mss_bytes: section.size("mss")?.unwrap_or(default.mss_bytes),
        header_bytes: section.size("header")?.unwrap_or(default.header_bytes),
        ack_bytes: section.size("ack")?.unwrap_or(default.ack_bytes),
        initial_window_packets: section.count("initial_window")?.unwrap_or(default.initial_window_packets),
        max_window_packets: match section.get("max_window").map(|value| &value.data) {
            Some(Data::Text(text)) if text == "auto" => None,
            _ => section.count("max_window")?,
        },
        min_rto: section.above_zero("min_rto")?.unwrap_or(default.min_rto),
        dup_ack_threshold: section.count("dup_ack_threshold")?.unwrap_or(default.dup_ack_threshold),
        limited_transmit: section.flag("limited_transmit")?.unwrap_or(default.limited_transmit),
        ack_every: section.count("ack_every")?.unwrap_or(default.ack_every),
        ack_timeout: section.above_zero("ack_timeout")?.unwrap_or(default.ack_timeout),
        handshake: section.flag("handshake")?.unwrap_or(default.handshake),
        max_timeouts: section.count("max_timeouts")?.unwrap_or(default.max_timeouts),
    };
    if config.packet_bytes() > 65_535 {
        return Err(section.error("mss", format!("packets of {} bytes are too large", config.packet_bytes())));
    }
    Ok(config)
}

fn transport_kind(section: &Section<'_>) -> Result<TransportKind, FileError> {
    let kind = section.choice("kind")?.unwrap_or("dctcp");
    check_keys(section, kind)?;
    Ok(match kind {
        "dctcp" => TransportKind::Dctcp(dctcp(section)?),
        "annulus" => TransportKind::Annulus(Annulus {
            dctcp: dctcp(section)?,
            local_delay: section.above_zero("local_delay")?.unwrap_or(Annulus::default().local_delay),
            equilibrium_bytes: section.size("equilibrium")?.unwrap_or(Annulus::default().equilibrium_bytes),
        }),
        "cubic" => TransportKind::Cubic(Cubic {
            has_hystart: section.flag("hystart")?.unwrap_or(Cubic::default().has_hystart),
        }),
        "spray" => TransportKind::Spray(Spray {
            target_delay: section.above_zero("target_delay")?,
            reorder_packets: section.count("reorder_packets")?,
            packet_timeout: section.above_zero("packet_timeout")?,
        }),
        "rdma" => TransportKind::Rdma(rdma(section)?),
        "udp" => TransportKind::Udp(udp_rate(section)?),
        // The others have only the keys that all have.
        name => TransportKind::named(name).unwrap_or(TransportConfig::default().kind),
    })
}

fn dctcp(section: &Section<'_>) -> Result<Dctcp, FileError> {
    Ok(Dctcp { gain: section.positive("gain")?.unwrap_or(Dctcp::default().gain) })
}

/// Checks that the section has no key that only other transports read.
fn check_keys(section: &Section<'_>, kind: &str) -> Result<(), FileError> {
    for key in crate::input::LAYOUT.of("transport").filter(|key| section.has(key.name)) {
        let readers = || TransportKind::ALL.iter().filter(|about| about.reads(key.name));
        if readers().next().is_none() || readers().any(|about| about.name == kind) {
            continue;
        }
        let names: Vec<String> = readers().map(|about| format!("\"{}\"", about.name)).collect();
        let error = section.error(key.name, format!("belongs to kind = {} only", names.join(" or ")));
        return Err(match kind {
            "spray" | "rdma" => error.with_hint("use `packet_timeout`; packets are acknowledged individually"),
            _ => error,
        });
    }
    Ok(())
}

fn rdma(section: &Section<'_>) -> Result<Rdma, FileError> {
    let default = Dcqcn::default();
    Ok(Rdma {
        recovery: match section.choice("recovery")? {
            Some("selective") => RdmaRecovery::Selective,
            _ => RdmaRecovery::GoBackN,
        },
        packet_timeout: section.above_zero("packet_timeout")?,
        dcqcn: Dcqcn {
            gain: section.positive("gain")?.unwrap_or(default.gain),
            notify_interval: section.above_zero("notify_interval")?.unwrap_or(default.notify_interval),
            alpha_timer: section.above_zero("alpha_timer")?.unwrap_or(default.alpha_timer),
            rate_timer: section.above_zero("rate_timer")?.unwrap_or(default.rate_timer),
            byte_counter: section.size("byte_counter")?.unwrap_or(default.byte_counter),
            additive_increase: section.above_zero("additive_increase")?,
            hyper_increase: section.above_zero("hyper_increase")?,
        },
    })
}

fn udp_rate(section: &Section<'_>) -> Result<UdpRate, FileError> {
    if let Some(rate) = section.above_zero::<Bandwidth>("rate")? {
        return Ok(UdpRate::Constant(rate));
    }
    let missing = |key: &str| section.missing(key).with_hint("UDP needs `rate`, or `min_packets` and `max_packets`");
    if !section.has("min_packets") && !section.has("max_packets") {
        return Err(missing("rate"));
    }
    let min_per_s = section.positive("min_packets")?.ok_or_else(|| missing("min_packets"))?;
    let max_per_s = section.positive("max_packets")?.ok_or_else(|| missing("max_packets"))?;
    if max_per_s < min_per_s {
        return Err(section.error("max_packets", format!("{max_per_s} is below min_packets = {min_per_s}")));
    }
    Ok(UdpRate::UniformPackets { min_per_s, max_per_s })
}
