// Calls agents through the store: a key of the agent holds the request, another key its answer.

import { type Chance, uuid } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { LeaseOnDemand } from "#store/lease-on-demand.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import { RESPONSES, requestKey, responseKey } from "#sync/keys.ts";
import type { Member } from "../members.ts";
import { CALL_LEASE_MS } from "./answers.ts";
import { MAX_REPLY_BYTES, type Request, readAnswer, tooLarge, writeRequest } from "./message.ts";

interface OpenQuestion {
  readonly resolve: (answer: Uint8Array) => void;
  readonly reject: (fault: Fault) => void;
}

export class Questions {
  readonly #store: Store;
  readonly #chance: Chance;
  readonly #lease: LeaseOnDemand;
  /** By the key of the answer. */
  readonly #waiting = new Map<string, OpenQuestion>();
  readonly #stop = new AbortController();
  #watching: { readonly ready: Promise<void>; readonly ended: Promise<void> } | undefined;

  constructor(store: Store, chance: Chance) {
    this.#store = store;
    this.#chance = chance;
    this.#lease = new LeaseOnDemand(store, { ttlMs: CALL_LEASE_MS });
  }

  /** Resolves to the encoded reply. @throws Fault as the agent answered it, or that of the store; CANCELLED by `signal` */
  async ask(member: Member, request: Request, signal: AbortSignal): Promise<Uint8Array> {
    const { id, hostname } = member;
    const own = id !== "";
    const call = uuid(this.#chance);
    const target = own ? id : hostname;
    const response = responseKey(target, call);
    const key = requestKey(target, call);
    const answered = Promise.withResolvers<Uint8Array>();
    // It may be rejected before it is awaited.
    answered.promise.catch(() => undefined);
    const cancel = () => answered.reject(new Fault("CANCELLED", "nobody waits for the answer"));
    signal.addEventListener("abort", cancel, { once: true });
    this.#waiting.set(response, answered);
    try {
      if (signal.aborted) cancel();
      // The answer may come before the commit of the request has returned.
      await Promise.race([this.#watch(), answered.promise]);
      const put = { kind: "put", key, value: writeRequest(request) } as const;
      await Promise.race([this.#lease.commit([put]), answered.promise]);
      const bytes = await answered.promise;
      if (!own) return bounded(bytes);
      const answer = readAnswer(bytes);
      if ("fault" in answer) throw answer.fault;
      return answer.reply;
    } finally {
      signal.removeEventListener("abort", cancel);
      this.#waiting.delete(response);
      // The agent takes the answer away when the request goes.
      void this.#store.commit([{ kind: "delete", key }]).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#fail(new Fault("CANCELLED", "the controller stops"));
    await this.#watching?.ended;
    await this.#lease.revoke();
  }

  /** Resolves when answers are seen. One watch serves all requests, from the first one on. */
  #watch(): Promise<void> {
    if (this.#watching === undefined) {
      const ready = Promise.withResolvers<void>();
      const ended = this.#follow(ready.resolve).catch((thrown: unknown) => {
        this.#watching = undefined;
        const fault = Fault.from(thrown);
        ready.reject(fault);
        this.#fail(fault);
      });
      ready.promise.catch(() => undefined);
      this.#watching = { ready: ready.promise, ended };
    }
    return this.#watching.ready;
  }

  async #follow(ready: () => void): Promise<void> {
    for await (const batch of this.#store.watch([RESPONSES], this.#stop.signal)) {
      this.#apply(batch);
      ready();
    }
  }

  #apply({ puts }: StoreUpdate): void {
    for (const { key, value } of puts) this.#waiting.get(key)?.resolve(value);
  }

  #fail(fault: Fault): void {
    for (const { reject } of this.#waiting.values()) reject(fault);
  }
}

function bounded(bytes: Uint8Array): Uint8Array {
  if (bytes.length > MAX_REPLY_BYTES) throw tooLarge(bytes, MAX_REPLY_BYTES);
  return bytes;
}
