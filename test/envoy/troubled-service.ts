// A service that answers late, breaks its answers off, or not at all, as the path of a request says, and counts the requests
// that it works on.
//
//   /ok?ms=20    answers after 20 ms         /reset?ms=20  resets the connection instead
//   /cut?ms=20   resets it within the body   /hang         never answers

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Ending } from "../kit/ending.ts";

/** Turns of the event loop in which every close that the system has reported is handled. */
const SETTLING_TURNS = 10;

export interface TroubledService {
  readonly port: number;
  /** Requests that it works on now. */
  readonly inFlight: number;
  /** Most requests that it worked on at once since the last call of `forget`. */
  readonly most: number;
  forget(): void;
  /** Returns a function that counts those of the present requests that it still works on. */
  present(): () => number;
  /** Requests that have arrived, by the value of their header `x-id`. */
  readonly arrived: ReadonlySet<string>;
  /** From now on every answer waits, or those that wait and all others are given. */
  hold(on: boolean): void;
  /** Resolves when the request with this `x-id` has arrived. */
  begins(id: string): Promise<void>;
  /** The same, but not while answers wait: the time for a client to leave. */
  leaving(id: string): Promise<void>;
}

export async function startTroubledService(test: Ending): Promise<TroubledService> {
  const working = new Set<ServerResponse>();
  const arrived = new Set<string>();
  let most = 0;
  let gate: PromiseWithResolvers<void> | undefined;
  /** By `x-id`. */
  const awaited = new Map<string, PromiseWithResolvers<void>>();

  /** Connections that have ended, but whose end this process has not handled yet, do not count. */
  const judge = async () => {
    let least = working.size;
    for (let turn = 0; turn < SETTLING_TURNS && least > most; turn++) {
      await nextTurn();
      least = Math.min(least, working.size);
    }
    most = Math.max(most, least);
  };

  const answer = async ({ url = "" }: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(url, "http://service");
    if (pathname === "/hang") return;
    await sleep(Number(searchParams.get("ms") ?? 0));
    await gate?.promise;
    working.delete(response);
    if (pathname === "/reset") response.socket?.resetAndDestroy();
    else if (pathname === "/cut") {
      response.writeHead(200, { "content-length": "1000" });
      response.write("part", () => response.socket?.resetAndDestroy());
    } else response.end("done");
  };

  const begins = (id: string) => {
    const arrival = awaited.get(id) ?? Promise.withResolvers<void>();
    awaited.set(id, arrival);
    if (arrived.has(id)) arrival.resolve();
    return arrival.promise;
  };

  const server = createServer((request, response) => {
    working.add(response);
    response.on("close", () => void working.delete(response));
    response.on("error", () => undefined);
    const id = String(request.headers["x-id"]);
    arrived.add(id);
    const { resolve } = awaited.get(id) ?? {};
    resolve?.();
    void judge();
    void answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    gate?.resolve();
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  return {
    port: address !== null && typeof address === "object" ? address.port : 0,
    arrived,
    get inFlight() {
      return working.size;
    },
    get most() {
      return most;
    },
    present() {
      const now = [...working];
      return () => now.filter((each) => working.has(each)).length;
    },
    begins,
    async leaving(id) {
      await begins(id);
      await gate?.promise;
    },
    forget() {
      most = 0;
    },
    hold(on) {
      if (on) gate ??= Promise.withResolvers();
      else {
        gate?.resolve();
        gate = undefined;
      }
    },
  };
}
