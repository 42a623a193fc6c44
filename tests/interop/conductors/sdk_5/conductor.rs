//! The conductor's own program: this is all that its `main` does.
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    agent_client_protocol_conductor::ConductorArgs::parse().main().await
}
