// Opens one port of the process with its guard of administration, and logs who can reach it.

import { Fault } from "#base/fault.ts";
import { statusText } from "#runtime/status/status.ts";
import { openAdministration } from "#serve/administration.ts";
import { openPort, type Port } from "#serve/port.ts";
import { keyOf, type PortSettings } from "#serve/settings.ts";
import { checkPort } from "./port-check.ts";
import type { ProcessPart, ProcessSettings, SluiceProcess } from "./process.ts";
import { logReach } from "./reach.ts";

export interface GuardedPort {
  /** Name of the port in the log, in the status and on the debug pages. */
  readonly name: string;
  readonly settings: PortSettings & Pick<ProcessSettings["server"], "administration">;
  readonly part: ProcessPart;
}

/** How long the status reports a client that did not speak TLS where the port does, or the reverse. */
const TLS_MISMATCH_SHOWN_MS = 5 * 60_000;

/** Throws a Fault that names the key of the address when the port cannot be opened. */
export async function openGuarded(
  process: SluiceProcess,
  { name, settings, part }: GuardedPort,
): Promise<Port> {
  const { clock, scope, serverMetrics, readScheduler, health } = process;
  const { routes, services } = part;
  const log = process.log.child(name);
  const { listener, tls, administration } = settings;
  const key = keyOf(listener);
  const accessControl = await openAdministration({
    settings: administration,
    listener,
    tls,
    clock,
    log,
  });
  scope.add("token", accessControl.close);
  const port = await openPort({
    settings,
    services,
    routes,
    accessControl,
    readScheduler,
    clock,
    log,
    meter: serverMetrics,
    descriptors: async (served) => {
      const { descriptorsOf } = await import("#wire/protobuf/descriptors.ts");
      return descriptorsOf(served);
    },
  });
  if (port.remote) {
    const { requirement } = accessControl;
    if (requirement === "local") {
      await port.cut();
      throw new Fault(
        "UNAVAILABLE",
        `${key}: the host name was a loopback address when access was decided and is another one now`,
      );
    }
    logReach({ key, address: port.address, tls: tls.enabled, requirement, routes, services }, log);
  }
  showTlsMismatch(process, name, port);
  // Readiness checks the port, and gRPC health on it says what the health of the process is.
  health.readiness.check(name, (signal) => checkPort(port.address, signal));
  port.health.setAll(health.healthy);
  health.onChange(port.health.setAll);
  return port;
}

function showTlsMismatch(
  { clock, health }: Pick<SluiceProcess, "clock" | "health">,
  name: string,
  port: Pick<Port, "tlsMismatch">,
): void {
  health.root
    .at("system", "tls")
    .at("port", name)
    .reportWith(() => {
      const last = port.tlsMismatch();
      const ago = last === undefined ? Number.POSITIVE_INFINITY : clock.now() - last.at;
      const shown = ago < TLS_MISMATCH_SHOWN_MS && last !== undefined;
      return {
        message: statusText("clients agree with this port on whether to speak TLS"),
        error: shown ? `${last.message}; the last one was ${last.peer}` : undefined,
        at: clock.wall() - (shown ? ago : 0),
      };
    });
}
