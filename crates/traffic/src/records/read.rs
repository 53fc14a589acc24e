//! Readers of nfdump, sFlow (sflowtool), GoFlow2, Zeek and VPC flow logs. The content selects one.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{FlowKey, Record, Records};
use crate::import::ImportError;

/// Bit of the TCP flags in the first packet of each side.
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;
const TCP: u32 = 6;
/// Length of an Ethernet header.
const ETHERNET: f64 = 14.0;

/// Reads the records of a file. `sampling` is the rate of exporters that do not announce it.
///
/// # Errors
/// The file has none of the known forms, or a line is broken.
pub fn read_records(file: &str, text: &str, sampling: Option<u32>) -> Result<Records, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let header: Vec<&str> = first.split(',').map(str::trim).collect();
    match () {
        () if first.starts_with("FLOW,") || first.starts_with("CNTR,") => sflow_lines(file, text),
        () if first.starts_with("#separator") || first.starts_with("#fields") => zeek(file, text),
        () if first.starts_with("version account-id") => vpc(file, text),
        () if first.starts_with('{') => json_lines(file, text, sampling),
        () if header.contains(&"srcAddr") || header.contains(&"sa") => nfdump(file, text, sampling),
        () => {
            let problem = "this is none of nfdump -o csv, sflowtool -l, sflowtool -j, GoFlow2's JSON, Zeek's conn.log and VPC \
                           flow logs";
            Err(ImportError::new(file, 1, problem.to_owned()))
        }
    }
}

fn parse<T: core::str::FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{what} `{}` is not understood", text.trim()))
}

/// Parses a number of packets or bytes, which is not negative.
fn amount(what: &str, text: &str) -> Result<f64, String> {
    let number: f64 = parse(what, text)?;
    if (0.0..1e18).contains(&number) { Ok(number) } else { Err(format!("{what} `{}` is out of range", text.trim())) }
}

/// Reads the lines of `sflowtool -l`; those of counters are skipped.
fn sflow_lines(file: &str, text: &str) -> Result<Records, ImportError> {
    let (mut found, mut others) = (Records::default(), 0);
    for (number, line) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = line.split(',').collect();
        match fields.first() {
            Some(&"FLOW") if fields.len() == 20 => match sflow_line(&fields) {
                Ok(record) => found.records.push(record),
                Err(_) if fields[9].parse::<IpAddr>().is_err() => others += 1,
                Err(problem) => return Err(ImportError::new(file, number, problem)),
            },
            Some(&"FLOW") => {
                return Err(ImportError::new(file, number, format!("a FLOW line has 20 fields, not {}", fields.len())));
            }
            Some(&"CNTR") | Some(&"") | None => {}
            Some(other) => return Err(ImportError::new(file, number, format!("`{other}` is no line of sflowtool -l"))),
        }
    }
    if others > 0 {
        found.warnings.push(format!("{file}: {others} samples are no IP packets"));
    }
    found.warnings.push(format!("{file}: sflowtool -l has no times: the duration must be given"));
    Ok(found)
}

fn sflow_line(fields: &[&str]) -> Result<Record, String> {
    let flags = u32::from_str_radix(fields[16].trim_start_matches("0x"), 16).unwrap_or(0);
    let sampling: u32 = parse("the sampling rate", fields[19])?;
    let protocol: u32 = parse("the protocol", fields[11])?;
    let rate = f64::from(sampling.max(1));
    Ok(Record {
        source: parse("the source", fields[9])?,
        destination: parse("the destination", fields[10])?,
        ports: (fields[14].parse().unwrap_or(0), fields[15].parse().unwrap_or(0)),
        packets: rate,
        ip_bytes: amount("the size of the packet", fields[18])? * rate,
        payload_bytes: None,
        sampling: sampling.max(1),
        time_s: None,
        seen_at: Some((parse("the agent", fields[1])?, parse("the input port", fields[2])?)),
        opens: protocol == TCP && flags & (SYN | ACK) == SYN,
    })
}

/// Lines of JSON: `sflowtool -j` and GoFlow2.
fn json_lines(file: &str, text: &str, sampling: Option<u32>) -> Result<Records, ImportError> {
    let (mut found, mut unknown_rate, mut others) = (Records::default(), 0, 0);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |problem: String| ImportError::new(file, number, problem);
        let value: Value = serde_json::from_str(line).map_err(|cause| wrong(format!("is not valid JSON: {cause}")))?;
        if let Some(samples) = value["samples"].as_array() {
            for sample in samples {
                let elements = sample["elements"].as_array().into_iter().flatten();
                let headers: Vec<&Value> = elements.filter(|element| element["flowSampleType"] == "HEADER").collect();
                others += usize::from(headers.is_empty() || headers.iter().any(|header| header["srcIP"].is_null()));
                let records = headers.into_iter().filter(|header| !header["srcIP"].is_null());
                for header in records {
                    found.records.push(sflow_sample(&value, sample, header).map_err(wrong)?);
                }
            }
        } else if value.get("src_addr").is_some() {
            let rate = value["sampling_rate"].as_u64().filter(|rate| *rate > 0).map(|rate| rate as u32).or(sampling);
            unknown_rate += usize::from(rate.is_none());
            found.records.push(goflow(&value, rate.unwrap_or(1)).map_err(wrong)?);
        } else {
            return Err(wrong("is neither a datagram of sflowtool -j nor a record of GoFlow2".to_owned()));
        }
    }
    if others > 0 {
        found.warnings.push(format!("{file}: {others} samples have no header of an IP packet"));
    }
    if unknown_rate > 0 {
        let text = format!(
            "{file}: {unknown_rate} records do not tell their sampling rate and count once: --sampling sets it"
        );
        found.warnings.push(text);
    }
    Ok(found)
}

/// All values of sflowtool are texts.
fn sflow_sample(datagram: &Value, sample: &Value, header: &Value) -> Result<Record, String> {
    let text =
        |value: &Value, key: &str| value[key].as_str().map(str::to_owned).unwrap_or_else(|| value[key].to_string());
    let sampling: u32 = parse("meanSkipCount", &text(sample, "meanSkipCount"))?;
    let rate = f64::from(sampling.max(1));
    let size = amount("sampledPacketSize", &text(header, "sampledPacketSize"))?;
    // Length of the frame, of which the checksum was stripped.
    let stripped = text(header, "strippedBytes").parse().unwrap_or(4.0);
    let flags: u32 = text(header, "TCPFlags").parse().unwrap_or(0);
    let port = |key: &str, other: &str| text(header, key).parse().or_else(|_| text(header, other).parse()).unwrap_or(0);
    let time = text(datagram, "unixSecondsUTC").parse::<f64>().ok();
    Ok(Record {
        source: parse("srcIP", &text(header, "srcIP"))?,
        destination: parse("dstIP", &text(header, "dstIP"))?,
        ports: (port("TCPSrcPort", "UDPSrcPort"), port("TCPDstPort", "UDPDstPort")),
        packets: rate,
        ip_bytes: (size - stripped - ETHERNET).max(0.0) * rate,
        payload_bytes: None,
        sampling: sampling.max(1),
        time_s: time.map(|time| (time, time)),
        seen_at: Some((parse("agent", &text(datagram, "agent"))?, parse("inputPort", &text(sample, "inputPort"))?)),
        opens: text(header, "IPProtocol") == "6" && flags & (SYN | ACK) == SYN,
    })
}

/// Reads a record of GoFlow2, which does not multiply samples.
fn goflow(value: &Value, sampling: u32) -> Result<Record, String> {
    let number =
        |key: &str| value[key].as_f64().filter(|number| *number >= 0.0).ok_or_else(|| format!("`{key}` is missing"));
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let rate = f64::from(sampling.max(1));
    let flags = value["tcp_flags"].as_u64().unwrap_or(0) as u32;
    let time = |key: &str| value[key].as_f64().filter(|ns| *ns > 0.0).map(|ns| ns / 1e9);
    let seen_at = text("sampler_address").parse().ok().zip(value["in_if"].as_u64().map(|port| port as u32));
    Ok(Record {
        source: parse("src_addr", text("src_addr"))?,
        destination: parse("dst_addr", text("dst_addr"))?,
        ports: (value["src_port"].as_u64().unwrap_or(0) as u16, value["dst_port"].as_u64().unwrap_or(0) as u16),
        packets: number("packets")? * rate,
        ip_bytes: number("bytes")? * rate,
        payload_bytes: None,
        sampling: sampling.max(1),
        time_s: time("time_flow_start_ns").zip(time("time_flow_end_ns")),
        seen_at,
        opens: text("proto") == "TCP" && flags & (SYN | ACK) == SYN,
    })
}

/// `nfdump -o csv` of any version, and `-o "csv:..."`: columns by the names of the header.
fn nfdump(file: &str, text: &str, sampling: Option<u32>) -> Result<Records, ImportError> {
    let mut lines = (1u64..).zip(text.lines());
    let header: Vec<&str> = lines.next().map(|(_, line)| line.split(',').map(str::trim).collect()).unwrap_or_default();
    let column = |names: &[&str]| header.iter().position(|name| names.contains(name));
    let needed = |names: &[&str]| {
        column(names).ok_or_else(|| ImportError::new(file, 1, format!("the column `{}` is missing", names[0])))
    };
    let (source, destination) = (needed(&["srcAddr", "sa"])?, needed(&["dstAddr", "da"])?);
    let (packets, bytes) = (needed(&["packets", "ipkt"])?, needed(&["bytes", "ibyt"])?);
    let (from, to) = (column(&["srcPort", "sp"]), column(&["dstPort", "dp"]));
    let (first, last) = (column(&["firstSeen", "ts"]), column(&["lastSeen", "te"]));
    let duration = column(&["duration", "td"]);
    let (flags, protocol) = (column(&["flags", "flg"]), column(&["proto", "pr"]));
    let (exporter, input) = (column(&["routerIP", "ra"]), column(&["input", "in"]));
    let mut found = Records::default();
    for (number, line) in lines {
        // Totals follow, in versions up to 1.7.4.
        if line.starts_with("Summary") {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |at: Option<usize>| at.and_then(|at| fields.get(at)).copied().unwrap_or_default();
        let record = || -> Result<Record, String> {
            let begins = seconds(field(first));
            let ends = seconds(field(last)).or_else(|| Some(begins? + field(duration).parse::<f64>().ok()?));
            let flags = field(flags);
            Ok(Record {
                source: parse("the source", field(Some(source)))?,
                destination: parse("the destination", field(Some(destination)))?,
                ports: (field(from).parse().unwrap_or(0), field(to).parse().unwrap_or(0)),
                packets: amount("packets", field(Some(packets)))?,
                ip_bytes: amount("bytes", field(Some(bytes)))?,
                payload_bytes: None,
                sampling: 1,
                time_s: begins.zip(ends),
                seen_at: field(exporter).parse().ok().zip(field(input).parse().ok()),
                opens: field(protocol) == "TCP" && flags.contains('S') && !flags.contains('A'),
            })
        };
        found.records.push(record().map_err(|problem| ImportError::new(file, number, problem))?);
    }
    multiply(file, &mut found, sampling);
    Ok(found)
}

/// nfcapd multiplies by the rate that the exporter announced, but not if it announced none.
fn multiply(file: &str, found: &mut Records, sampling: Option<u32>) {
    let divisor = found.records.iter().fold(0, |divisor, record| gcd(divisor, record.packets as u64));
    let announced = u32::try_from(divisor).ok().filter(|rate| *rate > 1 && found.records.len() > 1);
    let rate = match (announced, sampling) {
        (Some(announced), None) => {
            found.warnings.push(format!(
                "{file}: all numbers of packets are multiples of {announced}: they are taken as multiplied samples of one in {announced}"
            ));
            announced
        }
        (Some(announced), Some(given)) if announced % given == 0 => given,
        (_, Some(given)) => {
            for record in &mut found.records {
                record.packets *= f64::from(given);
                record.ip_bytes *= f64::from(given);
            }
            given
        }
        (None, None) => {
            found
                .warnings
                .push(format!("{file}: packets are taken as all there were; if the exporter samples, set --sampling"));
            1
        }
    };
    found.records.iter_mut().for_each(|record| record.sampling = rate.max(1));
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Parses seconds of an epoch, or `2026-09-01 00:00:00.004`; the zone of nfdump's texts does not matter.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds);
    }
    let (date, clock) = text.split_once(' ')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1970..3000).contains(&year) {
        return None;
    }
    // Days since 1970 in the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Zeek's `conn.log`: both directions of a connection are in one line.
fn zeek(file: &str, text: &str) -> Result<Records, ImportError> {
    let (mut found, mut fields, mut cut, mut lost) = (Records::default(), Vec::new(), 0, 0);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(names) = line.strip_prefix("#fields\t") {
            fields = names.split('\t').collect();
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let wrong = |problem: String| ImportError::new(file, number, problem);
        let values: Vec<&str> = line.split('\t').collect();
        let field = |name: &str| -> Option<&str> {
            let at = fields.iter().position(|field| *field == name)?;
            values.get(at).copied().filter(|value| *value != "-")
        };
        let needed = |name: &str| field(name).ok_or_else(|| format!("`{name}` is missing"));
        let mut connection = || -> Result<(), String> {
            let (a, b) = (parse("id.orig_h", needed("id.orig_h")?)?, parse("id.resp_h", needed("id.resp_h")?)?);
            let ports = (parse("id.orig_p", needed("id.orig_p")?)?, parse("id.resp_p", needed("id.resp_p")?)?);
            let begins: f64 = parse("ts", needed("ts")?)?;
            let ends = begins + field("duration").map_or(Ok(0.0), |text| amount("duration", text))?;
            cut += usize::from(matches!(field("conn_state"), Some("S1" | "S2" | "S3" | "OTH")));
            lost += usize::from(field("missed_bytes").is_some_and(|bytes| bytes != "0"));
            let ends_of = [(a, b, ports, "orig", true), (b, a, (ports.1, ports.0), "resp", false)];
            for (source, destination, ports, side, opens) in ends_of {
                let number = |name: &str| field(&format!("{side}_{name}")).map_or(Ok(0.0), |text| amount(name, text));
                let packets = number("pkts")?;
                if packets > 0.0 {
                    found.records.push(Record {
                        source,
                        destination,
                        ports,
                        packets,
                        ip_bytes: number("ip_bytes")?,
                        payload_bytes: Some(number("bytes")?),
                        sampling: 1,
                        time_s: Some((begins, ends)),
                        seen_at: None,
                        opens,
                    });
                }
            }
            Ok(())
        };
        connection().map_err(wrong)?;
    }
    if cut > 0 {
        found.warnings.push(format!(
            "{file}: {cut} connections began before or ended after the capture: their sizes are too small"
        ));
    }
    if lost > 0 {
        found.warnings.push(format!("{file}: the capture lost packets of {lost} connections (missed_bytes)"));
    }
    Ok(found)
}

/// AWS VPC flow log, version 2: a line for each flow, window and interface.
fn vpc(file: &str, text: &str) -> Result<Records, ImportError> {
    let mut lines = (1..).zip(text.lines());
    let header: Vec<&str> = lines.next().map(|(_, line)| line.split_whitespace().collect()).unwrap_or_default();
    let mut found = Records::default();
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    // A flow between two interfaces of the log has lines of both: that with more bytes is used.
    let mut flows: BTreeMap<FlowKey, BTreeMap<&str, Record>> = BTreeMap::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let values: Vec<&str> = line.split_whitespace().collect();
        let field =
            |name: &str| header.iter().position(|column| *column == name).and_then(|at| values.get(at)).copied();
        let status = field("log-status").unwrap_or("OK");
        if status != "OK" || field("action").is_some_and(|action| action != "ACCEPT") {
            *skipped.entry(if status == "OK" { "REJECT".to_owned() } else { status.to_owned() }).or_default() += 1;
            continue;
        }
        let text = |name: &str| field(name).ok_or_else(|| format!("`{name}` is missing"));
        let record = || -> Result<Record, String> {
            let time = (parse("start", text("start")?)?, parse("end", text("end")?)?);
            Ok(Record {
                source: parse("srcaddr", text("srcaddr")?)?,
                destination: parse("dstaddr", text("dstaddr")?)?,
                ports: (parse("srcport", text("srcport")?)?, parse("dstport", text("dstport")?)?),
                packets: amount("packets", text("packets")?)?,
                ip_bytes: amount("bytes", text("bytes")?)?,
                payload_bytes: None,
                sampling: 1,
                time_s: Some(time),
                seen_at: None,
                opens: false,
            })
        };
        let record = record().map_err(|problem| ImportError::new(file, number, problem))?;
        let of_flow = flows.entry(record.key()).or_default();
        match of_flow.get_mut(field("interface-id").unwrap_or_default()) {
            Some(before) => {
                before.packets += record.packets;
                before.ip_bytes += record.ip_bytes;
                if let (Some(old), Some(new)) = (&mut before.time_s, record.time_s) {
                    *old = (old.0.min(new.0), old.1.max(new.1));
                }
            }
            None => drop(of_flow.insert(field("interface-id").unwrap_or_default(), record)),
        }
    }
    let largest =
        |of_flow: BTreeMap<&str, Record>| of_flow.into_values().max_by(|a, b| a.ip_bytes.total_cmp(&b.ip_bytes));
    found.records.extend(flows.into_values().filter_map(largest));
    for (status, count) in skipped {
        found.warnings.push(format!("{file}: {count} lines with {status} are not used"));
    }
    Ok(found)
}
