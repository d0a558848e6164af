// The alerts of a run. An alert that is raised again before it would have resolved continues.

import type { Alert } from "#circuit/component.ts";
import type { RaisedAlert } from "./outcomes.ts";

export class AlertHistory {
  readonly #raised: RaisedAlert[] = [];
  /** Index in `#raised` of the last alert by policy and component. */
  readonly #last = new Map<string, number>();

  /** `intervalMs` is the time between two ticks. */
  raise(policy: string, alert: Alert, now: number, intervalMs: number): void {
    const key = `${policy}/${alert.componentId}`;
    const place = this.#last.get(key);
    const before = place === undefined ? undefined : this.#raised[place];
    const lasts = Math.max(alert.resolveMs, intervalMs);
    if (place !== undefined && before !== undefined && now - before.until <= lasts) {
      this.#raised[place] = { ...before, until: now };
      return;
    }
    const { name, severity } = alert;
    this.#last.set(key, this.#raised.push({ name, severity, from: now, until: now }) - 1);
  }

  get all(): readonly RaisedAlert[] {
    return this.#raised;
  }
}
