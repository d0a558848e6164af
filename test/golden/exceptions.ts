// Steps of the recorded cases at which Sluice answers otherwise on purpose. Each names the decision, the
// defect or the section that says why. A step that is listed here and passes after all fails the test.

/** By case: step numbers and the reason. */
export const EXCEPTIONS: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  "check-labels": {
    0: "decision 13: an empty control point is INVALID_ARGUMENT at every door",
    6: "decision 13",
  },
  "extauthz-baggage": {
    2: "decision 9: Envoy gets one overwriting header with the merged value",
    3: "decision 9",
    4: "decision 9",
  },
  "extauthz-body-and-raw-body": {
    3: "decision 6: text that is not UTF-8 is carried with replacement characters, so the encoded copy decodes",
  },
  "json-routing": {
    10: "GET / is a page that says what this is and which routes exist",
  },
  "rl-delay-initial-fill": {
    5: "data-plane §7.3: the wait is the one to the fill that really comes, and that fill lands",
    7: "data-plane §7.3",
    8: "D-4: no remembered refusal, so the tokens shown are those of this moment",
    9: "data-plane §7.3",
    11: "data-plane §7.3",
    12: "data-plane §7.3",
    13: "data-plane §7.3",
    14: "data-plane §7.3",
    15: "data-plane §7.3",
    16: "data-plane §7.3",
    17: "data-plane §7.3",
  },
  "sampler-pass-through-values": {
    5: "data-plane §7.5: an absent label is not the empty value",
    6: "data-plane §7.5",
  },
};
