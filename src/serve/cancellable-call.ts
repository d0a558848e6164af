// The part of a call, gRPC or HTTP, that tells its handler that no caller waits for the reply any more.

import type { Call } from "#base/handler.ts";

export abstract class CancellableCall implements Pick<Call, "signal" | "whenCallerLeaves"> {
  #controller: AbortController | undefined;
  #left: (() => void) | undefined;

  /** The call has ended. */
  protected abstract readonly cancelled: boolean;

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.cancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  whenCallerLeaves(left: () => void): void {
    if (this.cancelled) left();
    else this.#left = left;
  }

  /** Tells the handler. */
  protected cancel(): void {
    this.#controller?.abort();
    this.#left?.();
  }

  /** True if a handler threw this because its signal was aborted. */
  protected isAbortReason(thrown: unknown): boolean {
    return this.#controller !== undefined && thrown === this.#controller.signal.reason;
  }
}
