// Probes between members: datagrams that detect sooner than the store that an agent does not answer, or that its process
// is gone. Each datagram proves that its sender knows the secret of the group.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { type HostPort, joinHostPort, splitHostPort, whyNotBound } from "#base/net/host-port.ts";
import type { RingMember } from "./ring.ts";

interface ProbesOptions {
  /** Process id of this agent. */
  readonly id: string;
  readonly clock: Clock;
  /** The key of datagrams; undefined while it is not known. */
  readonly key: () => Buffer | undefined;
  /** A member answers, for the first time or again. */
  readonly heard: (id: string) => void;
  /** A member has not answered for a while. It may still be counting. */
  readonly silent: (id: string) => void;
  /**
   * The process of a member is gone: another process answers in its place, or it answered before and its machine now
   * refuses both probes and calls.
   */
  readonly gone: (id: string) => void;
}

const EVERY_MS = 1_000;
/** A member is silent after this many unanswered probes, and may be gone after this many refused ones. */
const SILENT_AFTER = 3;
const GONE_AFTER = 2;
/** Longest wait for a connection that shows whether a member is gone, ms. */
const CONNECT_MS = 2_000;

const PING = 1;
const HERE = 2;
/** The probe was meant for another process. */
const OTHER = 3;
const KINDS: readonly number[] = [PING, HERE, OTHER];
const NONCE_BYTES = 16;
const TAG_BYTES = 32;
/** Kind, nonce and tag. The id of the probed process follows. */
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
/** A UUID has 36. */
const MAX_ID_BYTES = 100;

type State = "unknown" | "heard" | "silent" | "gone";

interface Probed {
  readonly member: RingMember;
  readonly target: HostPort;
  readonly socket: Socket;
  connection: "none" | "connecting" | "connected";
  nonce: Buffer;
  missed: number;
  refused: number;
  /** It has answered before, so a refusal may mean that it is gone. Otherwise a firewall is more likely. */
  reachable: boolean;
  /** A connection is being tried. */
  checking: boolean;
  state: State;
}

export class Probes {
  /** Datagrams that did not prove that their sender knows the secret. */
  refused = 0;
  readonly #options: ProbesOptions;
  readonly #probed = new Map<string, Probed>();
  #socket: Socket | undefined;
  #stopAlarm: (() => void) | undefined;

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  /** Answers probes at `host:port` from now on; resolves with the bound port. Throws UNAVAILABLE when it is taken. */
  async listen(host: string, port: number): Promise<number> {
    const socket = await (host === ""
      ? bind("udp6", "", port).catch((thrown: NodeJS.ErrnoException) => {
          // A system without IPv6.
          if (thrown.code !== "EAFNOSUPPORT") throw thrown;
          return bind("udp4", "", port);
        })
      : bind(isIPv6(host) ? "udp6" : "udp4", host, port)
    ).catch((thrown: Error) => {
      throw new Fault("UNAVAILABLE", whyNotBound(joinHostPort(host, port), thrown));
    });
    socket.on("error", () => undefined);
    socket.on("message", (message, { address, port: from }) => {
      const answer = this.#answer(message);
      if (answer !== undefined) socket.send(answer, from, address, () => undefined);
    });
    this.#socket = socket;
    this.#later();
    return socket.address().port;
  }

  /** The members to probe. */
  set(members: readonly RingMember[]): void {
    const present = new Map(members.map((member) => [member.id, member]));
    for (const [id, { member, socket }] of this.#probed) {
      if (present.get(id)?.probe === member.probe) continue;
      this.#probed.delete(id);
      socket.close();
    }
    for (const member of members) {
      if (member.id !== this.#options.id && !this.#probed.has(member.id)) this.#add(member);
    }
  }

  /** True if a member answered the last probe. */
  answers(id: string): boolean {
    return this.#probed.get(id)?.state === "heard";
  }

  close(): void {
    this.#stopAlarm?.();
    this.set([]);
    this.#socket?.close();
  }

  #add(member: RingMember): void {
    if (member.probe === undefined) return;
    const target = splitHostPort(member.probe);
    const socket = createSocket({ type: isIPv6(target.host) ? "udp6" : "udp4" });
    const probed: Probed = {
      member,
      target,
      socket,
      connection: "none",
      nonce: randomBytes(NONCE_BYTES),
      missed: 0,
      refused: 0,
      reachable: false,
      checking: false,
      state: "unknown",
    };
    socket.on("error", (error: NodeJS.ErrnoException) => {
      // For example, its name was not found. The next probe connects again.
      if (probed.connection === "connecting") probed.connection = "none";
      if (error.code !== "ECONNREFUSED" || this.#probed.get(member.id) !== probed) return;
      probed.refused++;
      if (probed.refused >= GONE_AFTER && probed.reachable) void this.#checkGone(probed);
    });
    socket.on("connect", () => {
      probed.connection = "connected";
      this.#ping(probed);
    });
    socket.on("message", (message) => this.#heard(probed, message));
    this.#probed.set(member.id, probed);
    this.#connect(probed);
  }

  /** Connects the socket, so that the system reports when nobody listens there. */
  #connect(probed: Probed): void {
    const { socket, target } = probed;
    probed.connection = "connecting";
    socket.connect(Number(target.port), target.host);
  }

  #later(): void {
    this.#stopAlarm = this.#options.clock.alarm(EVERY_MS, () => {
      for (const probed of this.#probed.values()) this.#ping(probed);
      this.#later();
    });
  }

  #ping(probed: Probed): void {
    const key = this.#options.key();
    if (key === undefined) return;
    if (probed.missed >= SILENT_AFTER && probed.state !== "gone") this.#become(probed, "silent");
    probed.missed++;
    if (probed.connection === "none") this.#connect(probed);
    if (probed.connection !== "connected") return;
    probed.nonce = randomBytes(NONCE_BYTES);
    probed.socket.send(datagram(PING, probed.nonce, probed.member.id, key), () => undefined);
  }

  #heard(probed: Probed, message: Buffer): void {
    const read = this.#read(message);
    if (read === undefined || read.about !== probed.member.id) return;
    if (!read.nonce.equals(probed.nonce)) return;
    probed.missed = 0;
    probed.refused = 0;
    if (read.kind === OTHER) this.#become(probed, "gone");
    else if (read.kind === HERE) {
      probed.reachable = true;
      this.#become(probed, "heard");
    }
  }

  /**
   * Tries the port for calls after refused datagrams. Otherwise a firewall that rejects datagrams would make live agents
   * count apart.
   */
  async #checkGone(probed: Probed): Promise<void> {
    if (probed.checking) return;
    probed.checking = true;
    const refused = await refusesConnections(probed.member.address);
    probed.checking = false;
    // It has left the list, or has answered meanwhile.
    if (this.#probed.get(probed.member.id) !== probed || probed.refused < GONE_AFTER) return;
    if (refused) this.#become(probed, "gone");
    else probed.reachable = false;
  }

  #become(probed: Probed, state: Exclude<State, "unknown">): void {
    if (probed.state === state) return;
    probed.state = state;
    this.#options[state](probed.member.id);
  }

  /** The answer to a ping, which is as long as the ping. */
  #answer(message: Buffer): Buffer | undefined {
    const key = this.#options.key();
    const read = this.#read(message);
    if (key === undefined || read?.kind !== PING) return undefined;
    const { nonce, about } = read;
    return datagram(about === this.#options.id ? HERE : OTHER, nonce, about, key);
  }

  /** Undefined when the sender did not prove that it knows the secret, which is counted. */
  #read(message: Buffer) {
    const key = this.#options.key();
    const kind = message[0] ?? 0;
    const fits = message.length > HEAD_BYTES && message.length <= HEAD_BYTES + MAX_ID_BYTES;
    if (key !== undefined && fits && KINDS.includes(kind)) {
      const nonce = message.subarray(1, 1 + NONCE_BYTES);
      const about = message.subarray(HEAD_BYTES).toString();
      const wanted = datagram(kind, nonce, about, key);
      if (wanted.length === message.length && timingSafeEqual(wanted, message)) {
        return { kind, nonce, about };
      }
    }
    this.refused++;
    return undefined;
  }
}

/** True if the machine refuses connections to `host:port`. A connection without an answer proves nothing. */
function refusesConnections(address: string): Promise<boolean> {
  const { host, port } = splitHostPort(address);
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), timeout: CONNECT_MS });
    const end = (refused: boolean) => {
      socket.destroy();
      resolve(refused);
    };
    socket.once("connect", () => end(false));
    socket.once("timeout", () => end(false));
    socket.once("error", (error: NodeJS.ErrnoException) => end(error.code === "ECONNREFUSED"));
  });
}

/** An empty host stands for all addresses. */
async function bind(type: "udp4" | "udp6", host: string, port: number): Promise<Socket> {
  const socket = createSocket({ type });
  const bound = Promise.withResolvers<void>();
  socket.once("error", bound.reject);
  socket.bind({ port, ...(host === "" ? {} : { address: host }) }, bound.resolve);
  try {
    await bound.promise;
  } catch (thrown) {
    socket.close();
    throw thrown;
  }
  socket.off("error", bound.reject);
  return socket;
}

function datagram(kind: number, nonce: Buffer, about: string, key: Buffer): Buffer {
  const head = Buffer.concat([Buffer.of(kind), nonce]);
  const id = Buffer.from(about);
  const tag = createHmac("sha256", key).update(head).update(id).digest();
  return Buffer.concat([head, tag, id]);
}
