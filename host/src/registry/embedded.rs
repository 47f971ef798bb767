//! The files of `registry/`, embedded. Written by `cargo xtask rules`.

/// File below `registry/` and its bytes.
#[rustfmt::skip]
pub(super) const FILES: &[(&str, &[u8])] = &[
    ("metadata/1.dd-rules.json", include_bytes!("../../../registry/metadata/1.dd-rules.json")),
    ("metadata/1.reviewed.dd-rules.json", include_bytes!("../../../registry/metadata/1.reviewed.dd-rules.json")),
    ("metadata/1.reviewed.json", include_bytes!("../../../registry/metadata/1.reviewed.json")),
    ("metadata/1.root.json", include_bytes!("../../../registry/metadata/1.root.json")),
    ("metadata/2.catalog.json", include_bytes!("../../../registry/metadata/2.catalog.json")),
    ("metadata/2.snapshot.json", include_bytes!("../../../registry/metadata/2.snapshot.json")),
    ("metadata/2.targets.json", include_bytes!("../../../registry/metadata/2.targets.json")),
    ("metadata/timestamp.json", include_bytes!("../../../registry/metadata/timestamp.json")),
    ("targets/dd-rules/avg-pool-window/a2de0d023ccb791a737f4b7d62054e37c1a675e7bff8e57c6bc12a3c40b62e23.1.0.0.evidence.json", include_bytes!("../../../registry/targets/dd-rules/avg-pool-window/a2de0d023ccb791a737f4b7d62054e37c1a675e7bff8e57c6bc12a3c40b62e23.1.0.0.evidence.json")),
    ("targets/dd-rules/avg-pool-window/c2173fb2e8ed4fffee11a79617422fbc2d1f63225d32e2419686a750bb9473f5.1.0.0.wasm", include_bytes!("../../../registry/targets/dd-rules/avg-pool-window/c2173fb2e8ed4fffee11a79617422fbc2d1f63225d32e2419686a750bb9473f5.1.0.0.wasm")),
    ("targets/dd-rules/avg-pool-window/c9dd91a1ef2956e0fb296b98ba8ee467634a82567b23aadbc70cdcb3110e05d5.1.0.0.toml", include_bytes!("../../../registry/targets/dd-rules/avg-pool-window/c9dd91a1ef2956e0fb296b98ba8ee467634a82567b23aadbc70cdcb3110e05d5.1.0.0.toml")),
    ("targets/dd-rules/redundant-ops/68791baeae4bceb0e1cb62b0a4cdd6d3d12254b6a114f60fe8b46b809b340553.1.0.0.evidence.json", include_bytes!("../../../registry/targets/dd-rules/redundant-ops/68791baeae4bceb0e1cb62b0a4cdd6d3d12254b6a114f60fe8b46b809b340553.1.0.0.evidence.json")),
    ("targets/dd-rules/redundant-ops/a63e0d953bf6de7ba2ff9222f01b4070ce3e14fb9cfb7708c87710db9decd51d.1.0.0.toml", include_bytes!("../../../registry/targets/dd-rules/redundant-ops/a63e0d953bf6de7ba2ff9222f01b4070ce3e14fb9cfb7708c87710db9decd51d.1.0.0.toml")),
    ("targets/dd-rules/redundant-ops/bc3fbcaa9cf9f0703f91761ea6616991aaae607c3614af901fee265c7b2874c4.1.0.0.wasm", include_bytes!("../../../registry/targets/dd-rules/redundant-ops/bc3fbcaa9cf9f0703f91761ea6616991aaae607c3614af901fee265c7b2874c4.1.0.0.wasm")),
    ("targets/dd-rules/softmax-layout/1cb63db81ae7d341938c2352b74f39bc531228e97a47554367ea37f8633309ce.1.0.0.wasm", include_bytes!("../../../registry/targets/dd-rules/softmax-layout/1cb63db81ae7d341938c2352b74f39bc531228e97a47554367ea37f8633309ce.1.0.0.wasm")),
    ("targets/dd-rules/softmax-layout/ca6594e1523714dc82bd1e3d5678262436becdaaf6a801a771d152146b01d2c9.1.0.0.evidence.json", include_bytes!("../../../registry/targets/dd-rules/softmax-layout/ca6594e1523714dc82bd1e3d5678262436becdaaf6a801a771d152146b01d2c9.1.0.0.evidence.json")),
    ("targets/dd-rules/softmax-layout/f4b798aecd845723a263dfb9e4a6aecfa1796905d151f7dfce4ada2bfe8061e3.1.0.0.toml", include_bytes!("../../../registry/targets/dd-rules/softmax-layout/f4b798aecd845723a263dfb9e4a6aecfa1796905d151f7dfce4ada2bfe8061e3.1.0.0.toml")),
];
