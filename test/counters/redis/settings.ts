// The settings of a connection to one server.

import type { RedisSettings } from "#counters/settings.ts";

export const settingsOf = (url: string): RedisSettings => ({
  url,
  username: "",
  password: "",
  cluster: false,
  nodes: [],
  namespace: "sluice",
  sentinel: { master: "", addresses: [], username: "", password: "" },
  tls: { ca_file: "", cert_file: "", key_file: "", insecure_skip_verify: false },
  timeout: 5_000,
  probe_interval: 1_000,
  max_pending: 1_000,
});
