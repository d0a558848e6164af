// The name server of the pods: knows `NAME.NAMESPACE.svc.cluster.local` of each Service, and nothing else.

import { createSocket, type Socket } from "node:dgram";
import { NODE_ADDRESS } from "./network.ts";

export const DOMAIN = "cluster.local";

/** Addresses of a Service, undefined where there is none. */
export type LookUp = (name: string, namespace: string) => readonly string[] | undefined;

/** The text of a pod's /etc/resolv.conf. */
export function resolverOf(namespace: string): string {
  const search = [`${namespace}.svc.${DOMAIN}`, `svc.${DOMAIN}`, DOMAIN];
  return `nameserver ${NODE_ADDRESS}\nsearch ${search.join(" ")}\noptions ndots:5\n`;
}

export async function serveNames(lookUp: LookUp): Promise<Socket> {
  const socket = createSocket("udp4", (query, peer) => {
    const reply = answer(query, lookUp);
    if (reply !== undefined) socket.send(reply, peer.port, peer.address);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.bind(53, NODE_ADDRESS, resolve);
  });
  return socket;
}

const HEADER_BYTES = 12;
const TYPE_A = 1;
const NO_SUCH_NAME = 3;
const TTL_SECONDS = 5;

/** Answers a query with one question (RFC 1035, section 4). */
function answer(query: Buffer, lookUp: LookUp): Buffer | undefined {
  if (query.length < HEADER_BYTES || query.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (;;) {
    const length = query[at++] ?? 0;
    if (length === 0) break;
    if (length > 63 || at + length > query.length) return undefined;
    labels.push(query.toString("latin1", at, at + length).toLowerCase());
    at += length;
  }
  const type = query.readUInt16BE(at);
  const question = query.subarray(HEADER_BYTES, at + 4);
  const [name = "", namespace = "", ...rest] = labels;
  const isService = rest.join(".") === `svc.${DOMAIN}`;
  const found = isService ? lookUp(name, namespace) : undefined;
  const addresses = type === TYPE_A ? (found ?? []) : [];
  const header = Buffer.alloc(HEADER_BYTES);
  query.copy(header, 0, 0, 2);
  // An authoritative answer, recursion available, and the client's wish for recursion repeated.
  header.writeUInt16BE(0x8480 | ((query[2] ?? 0) & 1 ? 0x0100 : 0) | (found ? 0 : NO_SUCH_NAME), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(16);
    // The name is that of the question.
    record.writeUInt16BE(0xc000 | HEADER_BYTES, 0);
    record.writeUInt16BE(TYPE_A, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(TTL_SECONDS, 6);
    record.writeUInt16BE(4, 10);
    Buffer.from(address.split(".").map(Number)).copy(record, 12);
    return record;
  });
  return Buffer.concat([header, question, ...records]);
}
