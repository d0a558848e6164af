// The paths of checks, in a file of their own so that the no-op servers do not load the requests.

export const SERVICE = "envoy.service.auth.v3.Authorization";
export const CHECK_PATH = `/${SERVICE}/Check`;
export const JSON_PATH = "/v1/flowcontrol/checkhttp";
