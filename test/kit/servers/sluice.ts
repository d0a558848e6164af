// `sluice agent` and `sluice controller` as processes of the operating system, which share an etcd.

import type { Ending } from "../ending.ts";
import { type Child, child } from "./child.ts";

export interface SluiceChild extends Child {
  /** `host:port`, empty until it listens. */
  readonly address: () => string;
  /** Everything that it printed so far. */
  readonly printed: () => string;
}

/**
 * Starts a process over an etcd. `env` has further settings, without the prefix of their variables, and `variables`
 * what concerns the process as such.
 */
export function startSluice(
  t: Ending,
  name: "agent" | "controller",
  endpoints: readonly string[],
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  variables: Readonly<Record<string, string>> = {},
): SluiceChild {
  const prefix = `SVC_${name.toUpperCase()}`;
  const settings = {
    ETCD_ENDPOINTS: JSON.stringify(endpoints),
    ETCD_LEASE_TTL: "2s",
    SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SERVER_DRAIN_ACCEPT_FOR: "0s",
    OTEL_PORTS_DEBUG_PORT: "0",
    ...env,
  };
  const own = child(t, process.execPath, ["src/cli/sluice.js", name, ...args], {
    env: {
      PATH: process.env["PATH"],
      ...variables,
      ...Object.fromEntries(
        Object.entries(settings).map(([key, value]) => [`${prefix}_${key}`, value]),
      ),
    },
  });
  const printed = () => own.out() + own.err();
  const address = () => /listening on (127\.0\.0\.1:\d+)/.exec(printed())?.[1] ?? "";
  return { ...own, printed, address };
}

export async function listening(...all: readonly SluiceChild[]): Promise<void> {
  for (const each of all) await each.until("it listens", () => each.address() !== "");
}

/** Number of times that a controller has begun to lead. On a busy machine a lease may end by itself in between. */
export function timesLed(controller: SluiceChild): number {
  return controller.printed().split("this controller leads").length - 1;
}

/** Waits until a controller leads for the n-th time: its policies run, and their rules are in the store. */
export async function leads(controller: SluiceChild, times = 1): Promise<void> {
  await controller.until("it leads", () => timesLed(controller) >= times);
}

/** Waits until a controller says that another one leads. */
export async function standsBy(controller: SluiceChild): Promise<void> {
  await controller.until("it stands by", () =>
    controller.printed().includes("another controller leads"),
  );
}
