//! vsftpd: anonymous FTP in passive mode.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::path::Path;

use super::{CONFIG, Page, Server, write_pages};
use crate::error::{Result, make_folder};
use crate::network::running_network::RunningNetwork;

impl Server {
    /// vsftpd with `pages`, for anonymous clients. Its greeting names the host. `data`: the address
    /// and ports for data connections.
    pub fn vsftpd(
        live: &RunningNetwork,
        host: &str,
        at: SocketAddrV4,
        pages: &[Page<'_>],
        data: (Ipv4Addr, Range<u32>),
    ) -> Result<Server> {
        let server = Server::new(live, "vsftpd", host, at)?;
        write_pages(&server.folder.join("pages"), pages)?;
        make_folder(&server.folder.join("empty"))?;
        let config = config(host, at, &server.folder, &data);
        server.with_command(&["vsftpd", CONFIG], &config)
    }
}

fn config(name: &str, at: SocketAddrV4, folder: &Path, (address, ports): &(Ipv4Addr, Range<u32>)) -> String {
    let (ip, port, folder) = (at.ip(), at.port(), folder.display());
    let (first, last) = (ports.start, ports.end - 1);
    // Emulated hosts do not need vsftpd's own namespaces and system call filter.
    format!(
        "listen=YES\nbackground=NO\nlisten_address={ip}\nlisten_port={port}\nftpd_banner={name}\n\
         anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=NO\nno_anon_password=YES\nanon_root={folder}/pages\n\
         pasv_enable=YES\npasv_address={address}\npasv_min_port={first}\npasv_max_port={last}\nport_enable=NO\n\
         secure_chroot_dir={folder}/empty\nnopriv_user=nobody\nxferlog_enable=NO\nmax_clients=0\nmax_per_ip=0\n\
         isolate=NO\nisolate_network=NO\nseccomp_sandbox=NO\nuse_sendfile=YES\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_has_data_ports_and_valid_lines() {
        let at = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 5), 21);
        let text = config("ah4", at, Path::new("/x"), &(Ipv4Addr::new(10, 100, 0, 1), 61_008..61_016));
        assert!(text.contains("pasv_min_port=61008\npasv_max_port=61015\n") && text.contains("ftpd_banner=ah4\n"));
        assert!(text.lines().all(|line| line.split_once('=').is_some_and(|(key, _)| !key.contains(' '))), "{text}");
    }
}
