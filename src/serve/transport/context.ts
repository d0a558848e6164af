// The dependencies that every transport gets from the port.

import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { ServerMeter } from "#base/server-meter.ts";

export interface TransportContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: ServerMeter | undefined;
}
