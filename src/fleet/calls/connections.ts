// Calls to agents that are connected to this controller: the service that they connect to, and requests over their
// connections.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Stream } from "#base/handler.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import type { Member } from "../members.ts";
import { answerOf, type Request, writeRequest } from "./message.ts";

export const AGENT_FUNCTIONS = "sluice.fleet.v1.AgentFunctions";

/** More than a controller can ask in any useful time. */
const MAX_CONNECTED = 1_000;

interface Connection {
  readonly member: Member;
  readonly send: Stream["send"];
  /** By id of the request. */
  readonly waiting: Map<string, PromiseWithResolvers<Uint8Array>>;
}

export class Connections {
  /** By id of the agent. */
  readonly #connected = new Map<string, Connection>();
  #requests = 0;

  get list(): readonly Member[] {
    return [...this.#connected.values()].map(({ member }) => member);
  }

  has(id: string): boolean {
    return this.#connected.has(id);
  }

  readonly service: GrpcService = {
    name: AGENT_FUNCTIONS,
    access: "administration",
    methods: {
      Serve: {
        kind: "stream",
        client: true,
        server: true,
        handle: (stream) => this.#serve(stream),
      },
    },
  };

  /** Resolves to the encoded reply. @throws Fault as the agent answered it; UNAVAILABLE, CANCELLED */
  async ask(id: string, request: Request, signal: AbortSignal): Promise<Uint8Array> {
    const connection = this.#connected.get(id);
    if (connection === undefined) throw gone();
    this.#requests += 1;
    const name = String(this.#requests);
    const answered = Promise.withResolvers<Uint8Array>();
    answered.promise.catch(() => undefined);
    const cancel = () => answered.reject(new Fault("CANCELLED", "nobody waits for the answer"));
    signal.addEventListener("abort", cancel, { once: true });
    connection.waiting.set(name, answered);
    try {
      if (signal.aborted) cancel();
      const message = { id: name, request: writeRequest(request) };
      const sent = connection.send(encode("sluice.fleet.v1.ToAgent", message));
      await Promise.race([sent, answered.promise]);
      return await answered.promise;
    } finally {
      signal.removeEventListener("abort", cancel);
      connection.waiting.delete(name);
    }
  }

  async #serve({ messages, send }: Stream): Promise<void> {
    let connection: Connection | undefined;
    try {
      for await (const bytes of messages) {
        const { introduction, answer } = decode("sluice.fleet.v1.FromAgent", bytes);
        if (connection === undefined) {
          connection = this.#introduced(introduction, send);
          await send(encode("sluice.fleet.v1.ToAgent", {}));
        } else if (answer !== undefined && answer !== null) {
          settle(connection, answer);
        }
      }
    } finally {
      if (connection !== undefined) this.#over(connection);
    }
  }

  #introduced(
    introduction: Decoded<"sluice.fleet.v1.Introduction"> | null | undefined,
    send: Stream["send"],
  ): Connection {
    const { agentGroup: group, peer } = introduction ?? { agentGroup: "", peer: null };
    if (peer === null || peer.id === "" || group === "") {
      const wanted = "wanted an introduction with group, id and address";
      throw new Fault("INVALID_ARGUMENT", `${wanted}, got something else`);
    }
    if (this.#connected.size >= MAX_CONNECTED && !this.#connected.has(peer.id)) {
      const wanted = `wanted at most ${MAX_CONNECTED} agents`;
      throw new Fault("RESOURCE_EXHAUSTED", `${wanted} connected to this controller, got more`);
    }
    const { id, address, hostname, services } = peer;
    const connection = {
      member: { group, address, hostname, services, id },
      send,
      waiting: new Map(),
    };
    // An agent that connects again has given up its earlier connection.
    const before = this.#connected.get(id);
    this.#connected.set(id, connection);
    if (before !== undefined) failAll(before);
    return connection;
  }

  #over(connection: Connection): void {
    const { id } = connection.member;
    if (this.#connected.get(id) === connection) this.#connected.delete(id);
    failAll(connection);
  }
}

function settle({ waiting }: Connection, answer: Decoded<"sluice.fleet.v1.Answer">): void {
  const answered = waiting.get(answer.id);
  if (answered === undefined) return;
  try {
    const result = answerOf(answer);
    if ("fault" in result) answered.reject(result.fault);
    else answered.resolve(result.reply);
  } catch (thrown) {
    answered.reject(thrown);
  }
}

function failAll({ waiting }: Connection): void {
  for (const { reject } of waiting.values()) reject(gone());
}

function gone(): Fault {
  return new Fault("UNAVAILABLE", "the agent is no longer connected");
}
