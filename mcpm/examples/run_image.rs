//! Runs a container image as an MCP server, prints the URL for clients, and removes the workload on Ctrl-C.
//!
//!     cargo run --example run_image -- IMAGE [ARGS...]

use std::{io::Write as _, time::Duration};

use mcpm::{Environment, Workload, workload::Workloads};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let builder = Workload::builder(args.next().ok_or("no image")?).label(("started-by", "an example"));
    let workload = args.fold(builder, |builder, arg| builder.args(arg)).build()?;
    let mut events = workload.events();
    let starting = workload.start();
    tokio::pin!(starting);
    let running = loop {
        tokio::select! {
            Some(event) = events.next() => writeln!(std::io::stderr(), "{event:?}")?,
            started = &mut starting => break started?,
        }
    };
    writeln!(std::io::stdout(), "{}  {}", running.name(), running.url())?;
    tokio::signal::ctrl_c().await?;
    let name = running.name().to_owned();
    // It stays on record, to be started again, until it is removed.
    running.stop(Duration::from_secs(10)).await?;
    Workloads::new(Environment::from_process()).remove(&name, Duration::ZERO).await?;
    Ok(())
}
