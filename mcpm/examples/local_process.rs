//! Puts a stdio server that is an ordinary process behind an HTTP proxy.
//!
//!     cargo run --example local_process -- PORT PROGRAM [ARGS...]

use std::{io::Write as _, time::Duration};

use mcpm::{
    proxy::StdioProxy,
    stdio::{LocalProcess, ServerEvent},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port = args.next().ok_or("no port")?.parse()?;
    let server = LocalProcess::new(args.next().ok_or("no program")?, args);
    let on_event = |event: ServerEvent| {
        let _ = writeln!(std::io::stderr(), "{event:?}");
    };
    let running = StdioProxy::new("example", server).listen("127.0.0.1", port).start(on_event).await?;
    writeln!(std::io::stdout(), "{}", running.proxy().url())?;
    tokio::signal::ctrl_c().await?;
    running.stop(Duration::from_secs(2)).await;
    Ok(())
}
