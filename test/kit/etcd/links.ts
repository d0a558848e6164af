// Proxies between the members of an etcd cluster, which cut one of them off from the others. All connect to one address of
// a member, so a proxy learns who connects from the first request: etcd's members name themselves in a header.

import { connect, createServer, type Socket } from "node:net";
import type { Ending } from "../ending.ts";

export interface Links {
  /** `http://host:port` that each member advertises to the others. */
  readonly urls: readonly string[];
  /** Cuts a member off, in both directions; `id` is its own in hexadecimal, as `etcdctl member list` prints it. */
  cut(at: number, id: string): void;
  heal(): void;
}

interface Link {
  readonly sockets: readonly Socket[];
  readonly to: number;
  from: string;
}

/** `ports`: where members listen for each other. */
export async function startLinks(test: Ending, ports: readonly number[]): Promise<Links> {
  const links = new Set<Link>();
  let lost: { readonly at: number; readonly id: string } | undefined;
  const isCut = ({ to, from }: Link) => lost !== undefined && (to === lost.at || from === lost.id);
  const reset = ({ sockets }: Link) => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const servers = ports.map((port, to) =>
    createServer((near) => {
      const far = connect(port, "127.0.0.1");
      const link: Link = { sockets: [near, far], to, from: "" };
      links.add(link);
      near.on("data", (bytes) => {
        link.from ||= /^x-server-from: (\w+)/im.exec(bytes.toString("latin1"))?.[1] ?? "";
        if (isCut(link)) reset(link);
        else far.write(bytes);
      });
      far.on("data", (bytes) => void near.write(bytes));
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        one.on("error", () => undefined);
        one.on("close", () => {
          links.delete(link);
          other.destroy();
        });
      }
    }),
  );
  const urls: string[] = [];
  for (const server of servers) {
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const address = server.address();
    urls.push(`http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`);
  }
  test.after(async () => {
    for (const link of links) reset(link);
    await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))));
  });
  return {
    urls,
    cut(at, id) {
      lost = { at, id };
      for (const link of links) if (isCut(link)) reset(link);
    },
    heal() {
      lost = undefined;
    },
  };
}
