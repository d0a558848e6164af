// Stops started parts in reverse order, each once, at one of two speeds: a drain lets work in progress finish, a cut
// does not.

export type Speed = "drain" | "cut";

/** Stops one thing that was started. It may be called with `cut` while its `drain` is still in progress. */
export type Stop = (speed: Speed) => void | Promise<void>;

export class Scope {
  readonly #stops: { readonly name: string; readonly stop: Stop }[] = [];
  readonly #failed: (name: string, thrown: unknown) => void;
  #running: { readonly name: string; readonly stop: Stop } | undefined;
  #closing: Promise<void> | undefined;
  #speed: Speed = "drain";

  /** `failed` is called for each stop that throws; stopping continues with the others. */
  constructor(failed: (name: string, thrown: unknown) => void = () => undefined) {
    this.#failed = failed;
  }

  /** Registers the stop of a part that was just started. */
  add(name: string, stop: Stop): void {
    this.#stops.push({ name, stop });
  }

  /** Stops everything in reverse order. A `cut` that follows a `drain` also speeds up the stop in progress. */
  close(speed: Speed): Promise<void> {
    if (speed === "cut" && this.#speed === "drain") {
      this.#speed = "cut";
      const running = this.#running;
      if (running !== undefined) void this.#attempt(running);
    }
    this.#closing ??= this.#unwind();
    return this.#closing;
  }

  async #unwind(): Promise<void> {
    for (let next = this.#stops.pop(); next !== undefined; next = this.#stops.pop()) {
      this.#running = next;
      await this.#attempt(next);
    }
    this.#running = undefined;
  }

  async #attempt({ name, stop }: { readonly name: string; readonly stop: Stop }): Promise<void> {
    try {
      await stop(this.#speed);
    } catch (thrown) {
      this.#failed(name, thrown);
    }
  }
}
