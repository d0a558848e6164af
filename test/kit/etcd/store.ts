// Stores in a real etcd, for tests.

import { realChance, realClock } from "#runtime/life/clock.ts";
import {
  type EtcdSettings,
  type EtcdStore,
  type EtcdStoreOptions,
  etcdStore,
} from "#store/etcd.ts";
import type { Ending } from "../ending.ts";
import { memoryLog } from "../sluice/log.ts";

/** Settings with the defaults of the configuration. */
export function etcdSettings(
  endpoints: readonly string[],
  changed: Partial<EtcdSettings> = {},
): EtcdSettings {
  return {
    endpoints,
    lease_ttl: 10_000,
    log_level: "error",
    namespace: "aperture",
    username: "",
    password: "",
    tls: {
      ca_file: "",
      cert_file: "",
      key_file: "",
      insecure_skip_verify: false,
      key_log_file: "",
    },
    ...changed,
  };
}

/** Opens a store; the test closes it, or it is closed when the test ends. */
export function openEtcd(
  test: Ending | undefined,
  settings: EtcdSettings,
  options: Partial<EtcdStoreOptions> = {},
): EtcdStore {
  const log = memoryLog();
  const store = etcdStore({ settings, clock: realClock(), chance: realChance(), log, ...options });
  test?.after(() => store.close());
  return store;
}
