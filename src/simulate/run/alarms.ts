// Alerts as people get them: one that is raised again before it would have been resolved is the same.

import type { Alert } from "#circuit/component.ts";
import type { RaisedAlert } from "./verdicts.ts";

export class Alarms {
  readonly #raised: RaisedAlert[] = [];
  /** By policy and component: its place among those raised. */
  readonly #last = new Map<string, number>();

  /** `everyMs` lies between two ticks. */
  raise(policy: string, alert: Alert, now: number, everyMs: number): void {
    const key = `${policy}/${alert.componentId}`;
    const place = this.#last.get(key);
    const before = place === undefined ? undefined : this.#raised[place];
    const lasts = Math.max(alert.resolveMs, everyMs);
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
