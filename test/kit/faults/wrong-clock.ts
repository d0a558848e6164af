// Gives a process another time of day than the machine has, by Debian's libfaketime.

import { faketime } from "../../../deploy/tools/install.ts";

/** Variables of a process whose clock is off, for example by `+120s`. Its monotonic clock stays right, as on a real machine. */
export function wrongClock(offset: string): Readonly<Record<string, string>> {
  return { LD_PRELOAD: faketime(), FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: "1" };
}
