//! Puts the proxy in front of an MCP server that speaks HTTP already.
//!
//!     cargo run --example forward -- URI [PORT]

use std::io::Write as _;

use mcpm::Proxy;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let target = args.next().ok_or("no target")?;
    let port: u16 = args.next().map_or(Ok(0), |port| port.parse())?;
    let running = Proxy::builder("example", target).port(port).build()?.start().await?;
    writeln!(std::io::stdout(), "{}", running.url())?;
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}
