// The connection of an agent to one controller, over which the controller calls it. After each end it connects again.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { GrpcClient, GrpcStream } from "#client/grpc.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import type { Member } from "../members.ts";
import { AGENT_FUNCTIONS } from "./connections.ts";
import type { FunctionRunner } from "./functions.ts";
import { answerFields } from "./message.ts";

export interface OutboundSettings {
  /** Milliseconds until an attempt is given up. */
  readonly min_connection_timeout: number;
  readonly backoff: {
    /** Milliseconds. */
    readonly base_delay: number;
    readonly max_delay: number;
    readonly multiplier: number;
    /** Random share of a delay. */
    readonly jitter: number;
  };
}

interface OutboundOptions {
  readonly client: GrpcClient;
  /** Sent with the call, such as a credential. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly settings: OutboundSettings;
  /** This agent. */
  readonly self: () => Member;
  readonly functions: FunctionRunner;
  readonly clock: Clock;
  readonly chance: Chance;
  /** Called with the reason when the connection ends or is not made, and with undefined when the controller can ask. */
  readonly state: (fault: Fault | undefined) => void;
}

export class Outbound {
  readonly #options: OutboundOptions;
  #failures = 0;
  #disarm: () => void = () => undefined;
  #stream: GrpcStream | undefined;
  #closed = false;

  constructor(options: OutboundOptions) {
    this.#options = options;
    this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#disarm();
    this.#stream?.cancel();
    await this.#options.client.close();
  }

  #connect(): void {
    const { clock, settings } = this.#options;
    this.#open().catch((thrown: unknown) => this.#ended(Fault.from(thrown)));
    this.#disarm = clock.alarm(settings.min_connection_timeout, () => this.#stream?.cancel());
  }

  async #open(): Promise<void> {
    const { client, metadata, self } = this.#options;
    const stream = await client.stream(`/${AGENT_FUNCTIONS}/Serve`, {
      metadata,
      received: (message) => this.#received(stream, message),
      ended: (fault) => this.#ended(fault ?? new Fault("UNAVAILABLE", "the controller ended it")),
    });
    if (this.#closed) {
      stream.cancel();
      return;
    }
    this.#stream = stream;
    const { group: agentGroup, ...peer } = self();
    stream.send(encode("sluice.fleet.v1.FromAgent", { introduction: { agentGroup, peer } }));
  }

  #received(stream: GrpcStream, bytes: Uint8Array): void {
    const { id, request } = decode("sluice.fleet.v1.ToAgent", bytes);
    if (id === "") {
      this.#disarm();
      this.#failures = 0;
      this.#options.state(undefined);
      return;
    }
    void this.#options.functions.run(request).then((answer) => {
      if (this.#stream !== stream || this.#closed) return;
      stream.send(encode("sluice.fleet.v1.FromAgent", { answer: answerFields(answer, id) }));
    });
  }

  #ended(fault: Fault): void {
    if (this.#closed) return;
    const { clock, chance, state, settings } = this.#options;
    const { base_delay, max_delay, multiplier, jitter } = settings.backoff;
    this.#stream = undefined;
    this.#disarm();
    state(fault);
    const delay = Math.min(max_delay, base_delay * multiplier ** this.#failures);
    this.#failures += 1;
    const random = 1 + jitter * (2 * chance() - 1);
    this.#disarm = clock.alarm(delay * random, () => this.#connect());
  }
}
