//! Runs the shim's event loop while the server runs: connections, DNS queries, signals and seccomp notifications.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    child,
    config::Config,
    dns,
    names::Names,
    reverse_connections::ReverseConnections,
    splice::{SpliceState, SplicedPair},
    sys::{self, Epoll, Errno, Event, Fd, SocketAddress, print_error},
    uplink::Uplink,
};

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const ANY: [u8; 4] = [0; 4];
const DNS_PORT: u16 = 53;
/// Most spliced connections: two files each, of 1024 that a process may open by default.
const MAX_SPLICED_PAIRS: usize = 400;
/// Datagrams that are answered before others get their turn.
const MAX_DATAGRAMS_PER_EVENT: usize = 32;

/// The message about the consequences if connections cannot be redirected.
const NOT_REDIRECTED: &[u8] =
    b"allowed names have loopback addresses, to which some servers do not connect; denied addresses are not recorded";

const SIGNAL_TOKEN: u64 = 0;
const PROXY_TOKEN: u64 = 1;
const DNS_TOKEN: u64 = 2;
const SECCOMP_TOKEN: u64 = 3;
const PORT_TOKENS: u64 = 1 << 16;
const CONNECTION_TOKENS: u64 = 1 << 32;

struct Shim {
    uplink: Uplink,
    epoll: Epoll,
    names: Names,
    report_lookups: bool,
    inbound_port: Option<u16>,
    reverse_connections: ReverseConnections,
    connections: Vec<Option<Box<ShimConnection>>>,
}

/// The purpose of a connection.
enum ShimConnection {
    Spliced(SplicedPair),
    /// Waits for mcpm.
    Idle(Fd),
}

/// Runs the server until it ends; returns its exit code. `confine` runs in the server's process first.
pub(crate) fn run(
    way: Uplink,
    config: Config,
    engine_env: &[&[u8]],
    confine: impl FnOnce(),
) -> Result<i32, &'static [u8]> {
    let Config {
        args,
        env,
        names,
        parent_domains: below,
        any_name,
        ports,
        proxy_port,
        inbound_port,
        report_bypass: watch,
        report_lookups,
    } = config;
    let epoll = Epoll::new().map_err(|_| b"cannot create an epoll instance" as &[u8])?;
    let signals = sys::signals().map_err(|_| b"cannot create a signalfd" as &[u8])?;
    let proxy = listen(LOOPBACK, proxy_port);
    let datagrams = sys::bind_udp(SocketAddress { address: LOOPBACK, port: DNS_PORT });
    if datagrams.is_err() {
        print_error(&[b"host names cannot be resolved: cannot listen on port 53 of the container"]);
    }
    let listeners: Vec<Fd> = ports.iter().filter_map(|port| listen(ANY, *port)).collect();
    let watched =
        [(Some(&signals), SIGNAL_TOKEN), (proxy.as_ref(), PROXY_TOKEN), (datagrams.as_ref().ok(), DNS_TOKEN)];
    let of_ports = listeners.iter().zip(PORT_TOKENS..).map(|(fd, token)| (Some(fd), token));
    for (fd, token) in watched.into_iter().chain(of_ports) {
        if let Some(fd) = fd {
            epoll.watch(fd, token).map_err(|_| b"cannot watch sockets with epoll" as &[u8])?;
        }
    }
    let offers = ReverseConnections::new(inbound_port.is_some());
    let variables = child::environment(engine_env, &env);
    let watcher = if watch { sys::SeccompSetup::prepare() } else { None };
    let started = child::start(&args, &variables, || {
        confine();
        // Installed last, so that other filters can deny a call before it is reported.
        if let Some(watcher) = &watcher {
            watcher.install_filter();
        }
    });
    let child = started.map_err(|_| b"cannot start a process for the server" as &[u8])?;
    let watcher = watcher.and_then(|watcher| watcher.into_listener(child));
    let redirected = match &watcher {
        Some(notices) if notices.redirects() => true,
        Some(_) => {
            print_error(&[
                b"the kernel denies access to the server's memory (Yama's `ptrace_scope`, SELinux's `deny_ptrace`): ",
                NOT_REDIRECTED,
            ]);
            false
        }
        None => {
            if watch {
                print_error(&[b"the kernel does not report the server's connections: ", NOT_REDIRECTED]);
            }
            false
        }
    };
    let names = Names::new(names, below, any_name, redirected);
    let mut shim = Shim {
        uplink: way,
        epoll,
        names,
        report_lookups,
        inbound_port,
        reverse_connections: offers,
        connections: Vec::new(),
    };
    if let Some(notices) = &watcher {
        let _ = shim.epoll.watch(notices.fd(), SECCOMP_TOKEN);
    }
    // Only the server uses its streams.
    sys::close_standard_stream(0);
    sys::close_standard_stream(1);
    let mut events = [Event::NONE; 64];
    loop {
        shim.open_reverse_connections();
        let count = match shim.epoll.wait_for(&mut events, shim.reverse_connections.wait(sys::now())) {
            Ok(count) => count,
            Err(Errno::INTERRUPTED) => continue,
            Err(_) => return Err(b"cannot watch sockets with epoll"),
        };
        for event in events.iter().take(count) {
            match event.token() {
                SIGNAL_TOKEN => {
                    if let Some(code) = child::handle_signals(&signals, child) {
                        return Ok(code);
                    }
                }
                PROXY_TOKEN => proxy.iter().for_each(|listener| shim.accept_proxy_client(listener)),
                DNS_TOKEN => datagrams.iter().for_each(|socket| shim.answer_dns(socket)),
                SECCOMP_TOKEN => watcher.iter().for_each(|notices| shim.handle_seccomp_notification(notices)),
                token if token >= CONNECTION_TOKENS => shim.drive(token),
                token => {
                    if let Some(listener) =
                        usize::try_from(token - PORT_TOKENS).ok().and_then(|at| listeners.get(at))
                    {
                        shim.accept_host_client(listener);
                    }
                }
            }
        }
    }
}

fn listen(address: [u8; 4], port: u16) -> Option<Fd> {
    let listener = sys::listen(SocketAddress { address, port });
    if listener.is_err() {
        let mut digits = [0; 5];
        print_error(&[b"cannot listen on port ", decimal(port, &mut digits), b" of the container"]);
    }
    listener.ok()
}

impl Shim {
    /// A client of the HTTP proxy.
    fn accept_proxy_client(&mut self, listener: &Fd) {
        if let Ok((client, _)) = sys::accept(listener) {
            self.splice_to_mcpm(client, b"proxy\n".to_vec());
        }
    }

    /// A client that connected to an address that stands for a host.
    fn accept_host_client(&mut self, listener: &Fd) {
        let Ok((client, place)) = sys::accept(listener) else { return };
        let Some(name) = self.names.name(place.address) else { return };
        let mut digits = [0; 5];
        let words = [b"open ", decimal(place.port, &mut digits), b" ", name, b"\n"].concat();
        self.splice_to_mcpm(client, words);
    }

    fn splice_to_mcpm(&mut self, client: Fd, words: Vec<u8>) {
        if let Ok(link) = self.uplink.connect() {
            self.add(ShimConnection::Spliced(SplicedPair::new(client, link, words)));
        }
    }

    /// Opens connections that wait until mcpm connects to the server.
    fn open_reverse_connections(&mut self) {
        for _ in 0..self.reverse_connections.due(sys::now()) {
            let offer = self.uplink.connect().and_then(|link| sys::send(&link, b"inbound\n").map(|_| link));
            if !offer.is_ok_and(|link| self.add(ShimConnection::Idle(link))) {
                return self.reverse_connections.failed(sys::now());
            }
            self.reverse_connections.opened();
        }
    }

    /// Whether there is room for another pair. Waiting connections have a limit of their own.
    fn has_room(&self) -> bool {
        let joined =
            |link: &&Option<Box<ShimConnection>>| matches!(link.as_deref(), Some(ShimConnection::Spliced(_)));
        self.connections.iter().filter(joined).count() < MAX_SPLICED_PAIRS
    }

    /// Registers a connection; returns whether that succeeded.
    fn add(&mut self, link: ShimConnection) -> bool {
        if matches!(link, ShimConnection::Spliced(_)) && !self.has_room() {
            return false;
        }
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or(self.connections.len());
        let token = CONNECTION_TOKENS + at as u64;
        let watched = match &link {
            ShimConnection::Spliced(pair) => pair.watch(&self.epoll, token),
            ShimConnection::Idle(fd) => self.epoll.watch(fd, token),
        };
        if watched.is_err() {
            return false;
        }
        if free.is_none() {
            self.connections.push(None);
        }
        if let Some(place) = self.connections.get_mut(at) {
            *place = Some(Box::new(link));
        }
        // Events from before the registration are reported again, but the first line is sent at once.
        self.drive(token);
        true
    }

    /// Handles an event of a connection.
    fn drive(&mut self, token: u64) {
        let at = (token - CONNECTION_TOKENS) as usize;
        let Some(place) = self.connections.get_mut(at) else { return };
        match place.as_deref_mut() {
            Some(ShimConnection::Spliced(pair)) => {
                if pair.pump(&self.epoll, token) == SpliceState::Closed {
                    *place = None;
                }
            }
            Some(ShimConnection::Idle(link)) => {
                let mut word = [0];
                match sys::read(link, &mut word) {
                    Err(Errno::AGAIN | Errno::INTERRUPTED) => {}
                    Ok(1) => {
                        if let Some(link) = place.take() {
                            self.connect_to_server(*link);
                        }
                        self.reverse_connections.claimed();
                    }
                    _ => {
                        *place = None;
                        self.reverse_connections.lost(sys::now());
                    }
                }
            }
            None => {}
        }
    }

    /// Splices mcpm to the server.
    fn connect_to_server(&mut self, link: ShimConnection) {
        let (ShimConnection::Idle(link), Some(port)) = (link, self.inbound_port) else { return };
        match sys::connect(SocketAddress { address: LOOPBACK, port }) {
            Ok(server) if self.has_room() => {
                self.epoll.unwatch(&link);
                self.add(ShimConnection::Spliced(SplicedPair::connecting(link, server)));
            }
            _ => {
                let _ = sys::send(&link, b"-");
            }
        }
    }

    fn answer_dns(&mut self, socket: &Fd) {
        let mut packet = [0; dns::MAX_PACKET_BYTES];
        for _ in 0..MAX_DATAGRAMS_PER_EVENT {
            let Ok((count, from)) = sys::receive_from(socket, &mut packet) else { return };
            let (names, mut new) = (&mut self.names, None);
            let question = packet.get(..count).unwrap_or_default();
            let reply = dns::answer(question, |name| {
                let known = names.count();
                let address = names.address(name);
                new = (names.count() > known).then(|| name.to_vec());
                address
            });
            let Some(reply) = reply else { continue };
            // A client that gets no response repeats its query.
            let _ = sys::send_to(socket, &reply.bytes, from);
            if let Some(name) = reply.refused {
                notify_mcpm(self.uplink, &[b"refused dns ", &name]);
            }
            if let Some(name) = new.filter(|_| self.report_lookups) {
                notify_mcpm(self.uplink, &[b"looked-up ", &name]);
            }
        }
    }

    /// Handles an attempt to connect past the shim.
    fn handle_seccomp_notification(&mut self, notices: &sys::SeccompListener) {
        if let Some(attempt) = notices.handle_next() {
            notify_mcpm(self.uplink, &[b"refused ", &attempt]);
        }
    }
}

/// Reports to mcpm what the shim itself denied.
fn notify_mcpm(way: Uplink, words: &[&[u8]]) {
    if let Ok(link) = way.connect() {
        let line = [words, &[b"\n" as &[u8]]].concat().concat();
        let _ = sys::send(&link, &line);
    }
}

fn decimal(mut number: u16, digits: &mut [u8; 5]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}
