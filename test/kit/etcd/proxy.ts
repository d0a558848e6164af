// A TCP proxy in front of a server, which a test cuts, opens again, or makes swallow everything.

import { connect, createServer, type Socket } from "node:net";
import type { Ending } from "../ending.ts";

export interface Proxy {
  /** `http://host:port`, for clients. */
  readonly endpoint: string;
  /** Resets all connections; new ones are reset too, until `open`. */
  cut(): void;
  /** Accepts and reads, and passes nothing on in either direction, until `open`. */
  swallow(): void;
  open(): void;
  /** Connections that were accepted so far. */
  readonly accepted: () => number;
}

export async function startProxy(test: Ending, target: string): Promise<Proxy> {
  let state: "open" | "cut" | "swallowing" = "open";
  let accepted = 0;
  const sockets = new Set<Socket>();
  const [host = "", port = ""] = target.replace(/^https?:\/\//, "").split(":");
  const server = createServer((near) => {
    accepted += 1;
    if (state === "cut") {
      near.resetAndDestroy();
      return;
    }
    const far = connect(Number(port), host);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("error", () => undefined);
      from.on("data", (bytes) => void (state === "open" && to.write(bytes)));
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const reset = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  test.after(async () => {
    reset();
    await new Promise((closed) => server.close(closed));
  });
  const address = server.address();
  const own = typeof address === "object" && address !== null ? address.port : 0;
  return {
    endpoint: `http://127.0.0.1:${own}`,
    cut: () => {
      state = "cut";
      reset();
    },
    swallow: () => {
      state = "swallowing";
    },
    open: () => {
      // What was swallowed is lost, so no connection may go on.
      if (state === "swallowing") reset();
      state = "open";
    },
    accepted: () => accepted,
  };
}
