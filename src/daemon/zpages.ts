// The debug pages: recent slow calls, and the connections that are open, as text.

import type { Clock } from "#base/clock.ts";
import type { HttpReply, Route } from "#base/handler.ts";
import type { Port } from "#serve/port.ts";
import type { SlowCalls } from "#telemetry/metrics/slow-calls.ts";

export interface NamedPort {
  readonly name: string;
  readonly port: Pick<Port, "address" | "connections">;
}

interface DebugPagesOptions {
  readonly slow: SlowCalls;
  readonly clock: Clock;
  readonly ports: () => readonly NamedPort[];
}

/** Connections that one page lists. */
const MAX_LISTED = 1_000;

export function debugPages({ slow, clock, ports }: DebugPagesOptions): readonly Route[] {
  const page = (path: string, about: string, write: () => readonly string[]): Route => ({
    method: "GET",
    path,
    about,
    access: "administration",
    costly: true,
    handle: () => text(write()),
  });
  return [
    page("/debug/tracez", `Recent calls that took at least ${slow.leastMs} ms.`, () => [
      `The last calls that took at least ${slow.leastMs} ms, the newest first.`,
      "",
      "time\tms\tresult\tcall",
      ...slow
        .newestFirst()
        .map(({ at, ms, result, what }) =>
          [new Date(at).toISOString(), ms.toFixed(1), result, what].join("\t"),
        ),
    ]),
    page("/debug/connectionz", "Open connections of every port.", () =>
      ports().flatMap(({ name, port }) => {
        const open = port.connections();
        return [
          `${name} ${port.address}: ${open.length} open${open.length > MAX_LISTED ? `, of which ${MAX_LISTED} are listed` : ""}`,
          "peer\tprotocol\topen for s\tbytes read\tbytes written",
          ...open
            .slice(0, MAX_LISTED)
            .map(({ peer, protocol, since, read, written }) =>
              [peer, protocol, Math.round((clock.now() - since) / 1_000), read, written].join("\t"),
            ),
          "",
        ];
      }),
    ),
  ];
}

function text(lines: readonly string[]): HttpReply {
  const headers = { "content-type": "text/plain; charset=utf-8" };
  return { status: 200, headers, body: `${lines.join("\n").trimEnd()}\n` };
}
