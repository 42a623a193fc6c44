//! A proxy that changes nothing, for both protocol versions. Speaks `proxy/…`.
use agent_client_protocol::{ConnectTo, Error, Proxy, Stdio};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let both = Proxy.protocol_router().with_v1(Proxy.v1()).with_v2(Proxy.v2());
    both.connect_to(Stdio::new()).await
}
