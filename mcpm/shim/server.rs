//! What the shim does while the server runs.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    child,
    config::Config,
    dns,
    names::Names,
    offers::Offers,
    relay::{Pair, State},
    sys::{self, Epoll, Errno, Event, Fd, Place, complain},
    way::Way,
};

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const ANY: [u8; 4] = [0; 4];
const DNS_PORT: u16 = 53;
/// Most joined connections: two files each, of 1024 that a process may open by default.
const PAIRS: usize = 400;
/// Datagrams that are answered before others have their turn.
const DATAGRAMS: usize = 32;

/// What follows where connections cannot be redirected.
const NOT_REDIRECTED: &[u8] =
    b"allowed names have loopback addresses, to which some servers do not connect, and no denied address is recorded";

const SIGNALS: u64 = 0;
const PROXY: u64 = 1;
const DNS: u64 = 2;
const WATCH: u64 = 3;
const PORTS: u64 = 1 << 16;
const JOINED: u64 = 1 << 32;

struct Shim {
    way: Way,
    epoll: Epoll,
    names: Names,
    report_lookups: bool,
    inbound_port: Option<u16>,
    offers: Offers,
    links: Vec<Option<Box<Link>>>,
}

/// What a connection is for.
enum Link {
    Joined(Pair),
    /// Waits for mcpm.
    Spare(Fd),
}

/// Runs the server until it ends; returns its exit code.
pub(crate) fn run(way: Way, config: Config, engine_env: &[&[u8]]) -> Result<i32, &'static [u8]> {
    let Config { args, env, names, below, any_name, ports, proxy_port, inbound_port, watch, report_lookups } =
        config;
    let epoll = Epoll::new().map_err(|_| b"the kernel gives no epoll" as &[u8])?;
    let signals = sys::signals().map_err(|_| b"the kernel gives no signalfd" as &[u8])?;
    let proxy = listen(LOOPBACK, proxy_port);
    let datagrams = sys::datagrams(Place { address: LOOPBACK, port: DNS_PORT });
    if datagrams.is_err() {
        complain(&[b"names cannot be looked up: port 53 of the container is not free"]);
    }
    let listeners: Vec<Fd> = ports.iter().filter_map(|port| listen(ANY, *port)).collect();
    let watched = [(Some(&signals), SIGNALS), (proxy.as_ref(), PROXY), (datagrams.as_ref().ok(), DNS)];
    let of_ports = listeners.iter().zip(PORTS..).map(|(fd, token)| (Some(fd), token));
    for (fd, token) in watched.into_iter().chain(of_ports) {
        if let Some(fd) = fd {
            epoll.watch(fd, token).map_err(|_| b"the kernel watches no sockets" as &[u8])?;
        }
    }
    let offers = Offers::new(inbound_port.is_some());
    let variables = child::environment(engine_env, &env);
    let watcher = if watch { sys::Watcher::prepare() } else { None };
    let started = child::start(&args, &variables, || {
        if let Some(watcher) = &watcher {
            watcher.install();
        }
    });
    let child = started.map_err(|_| b"the kernel starts no process" as &[u8])?;
    let watcher = watcher.and_then(|watcher| watcher.installed(child));
    let redirected = match &watcher {
        Some(notices) if notices.redirects() => true,
        Some(_) => {
            complain(&[
                b"the kernel protects the server's memory (Yama's `ptrace_scope`, SELinux's `deny_ptrace`): ",
                NOT_REDIRECTED,
            ]);
            false
        }
        None => {
            if watch {
                complain(&[b"the kernel does not report the server's connections: ", NOT_REDIRECTED]);
            }
            false
        }
    };
    let names = Names::new(names, below, any_name, redirected);
    let mut shim = Shim { way, epoll, names, report_lookups, inbound_port, offers, links: Vec::new() };
    if let Some(notices) = &watcher {
        let _ = shim.epoll.watch(notices.fd(), WATCH);
    }
    // The server's streams are the server's alone.
    sys::close_standard(0);
    sys::close_standard(1);
    let mut events = [Event::NONE; 64];
    loop {
        shim.make_offers();
        let count = match shim.epoll.wait_for(&mut events, shim.offers.wait(sys::now())) {
            Ok(count) => count,
            Err(Errno::INTERRUPTED) => continue,
            Err(_) => return Err(b"the kernel watches no sockets"),
        };
        for event in events.iter().take(count) {
            match event.token() {
                SIGNALS => {
                    if let Some(code) = child::take_signals(&signals, child) {
                        return Ok(code);
                    }
                }
                PROXY => proxy.iter().for_each(|listener| shim.take_proxied(listener)),
                DNS => datagrams.iter().for_each(|socket| shim.answer(socket)),
                WATCH => watcher.iter().for_each(|notices| shim.take_notice(notices)),
                token if token >= JOINED => shim.go_on(token),
                token => {
                    if let Some(listener) =
                        usize::try_from(token - PORTS).ok().and_then(|at| listeners.get(at))
                    {
                        shim.take_named(listener);
                    }
                }
            }
        }
    }
}

fn listen(address: [u8; 4], port: u16) -> Option<Fd> {
    let listener = sys::listen(Place { address, port });
    if listener.is_err() {
        let mut digits = [0; 5];
        complain(&[b"port ", decimal(port, &mut digits), b" of the container is not free"]);
    }
    listener.ok()
}

impl Shim {
    /// A client of the HTTP proxy.
    fn take_proxied(&mut self, listener: &Fd) {
        if let Ok((client, _)) = sys::accept(listener) {
            self.join(client, b"proxy\n".to_vec());
        }
    }

    /// A client that takes an address of ours for a host's.
    fn take_named(&mut self, listener: &Fd) {
        let Ok((client, place)) = sys::accept(listener) else { return };
        let Some(name) = self.names.name(place.address) else { return };
        let mut digits = [0; 5];
        let words = [b"open ", decimal(place.port, &mut digits), b" ", name, b"\n"].concat();
        self.join(client, words);
    }

    fn join(&mut self, client: Fd, words: Vec<u8>) {
        if let Ok(link) = self.way.connect() {
            self.add(Link::Joined(Pair::new(client, link, words)));
        }
    }

    /// Has connections wait until mcpm wants to reach the server.
    fn make_offers(&mut self) {
        for _ in 0..self.offers.due(sys::now()) {
            let offer = self.way.connect().and_then(|link| sys::send(&link, b"inbound\n").map(|_| link));
            if !offer.is_ok_and(|link| self.add(Link::Spare(link))) {
                return self.offers.failed(sys::now());
            }
            self.offers.made();
        }
    }

    /// Tells whether there is room for one more joined pair. Connections that wait have theirs beside.
    fn has_room(&self) -> bool {
        let joined = |link: &&Option<Box<Link>>| matches!(link.as_deref(), Some(Link::Joined(_)));
        self.links.iter().filter(joined).count() < PAIRS
    }

    /// Takes a connection in; tells whether that could be done.
    fn add(&mut self, link: Link) -> bool {
        if matches!(link, Link::Joined(_)) && !self.has_room() {
            return false;
        }
        let free = self.links.iter().position(Option::is_none);
        let at = free.unwrap_or(self.links.len());
        let token = JOINED + at as u64;
        let watched = match &link {
            Link::Joined(pair) => pair.watch(&self.epoll, token),
            Link::Spare(fd) => self.epoll.watch(fd, token),
        };
        if watched.is_err() {
            return false;
        }
        if free.is_none() {
            self.links.push(None);
        }
        if let Some(place) = self.links.get_mut(at) {
            *place = Some(Box::new(link));
        }
        // What happened before it was watched is told once more, but the first words go out at once.
        self.go_on(token);
        true
    }

    /// Something has happened to a connection.
    fn go_on(&mut self, token: u64) {
        let at = (token - JOINED) as usize;
        let Some(place) = self.links.get_mut(at) else { return };
        match place.as_deref_mut() {
            Some(Link::Joined(pair)) => {
                if pair.pump(&self.epoll, token) == State::Over {
                    *place = None;
                }
            }
            Some(Link::Spare(link)) => {
                let mut word = [0];
                match sys::read(link, &mut word) {
                    Err(Errno::AGAIN | Errno::INTERRUPTED) => {}
                    Ok(1) => {
                        if let Some(link) = place.take() {
                            self.reach(*link);
                        }
                        self.offers.taken();
                    }
                    _ => {
                        *place = None;
                        self.offers.broke(sys::now());
                    }
                }
            }
            None => {}
        }
    }

    /// Joins mcpm to the server.
    fn reach(&mut self, link: Link) {
        let (Link::Spare(link), Some(port)) = (link, self.inbound_port) else { return };
        match sys::connect(Place { address: LOOPBACK, port }) {
            Ok(server) if self.has_room() => {
                self.epoll.forget(&link);
                self.add(Link::Joined(Pair::connecting(link, server)));
            }
            _ => {
                let _ = sys::send(&link, b"-");
            }
        }
    }

    fn answer(&mut self, socket: &Fd) {
        let mut packet = [0; dns::PACKET];
        for _ in 0..DATAGRAMS {
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
            // Who does not get it asks again.
            let _ = sys::send_to(socket, &reply.bytes, from);
            if let Some(name) = reply.refused {
                tell(self.way, &[b"refused dns ", &name]);
            }
            if let Some(name) = new.filter(|_| self.report_lookups) {
                tell(self.way, &[b"looked-up ", &name]);
            }
        }
    }

    /// Somebody tries to reach an address without us.
    fn take_notice(&mut self, notices: &sys::Notices) {
        if let Some(attempt) = notices.take() {
            tell(self.way, &[b"refused ", &attempt]);
        }
    }
}

/// Tells mcpm of what did not get as far as it.
fn tell(way: Way, words: &[&[u8]]) {
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
