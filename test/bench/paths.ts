// Where checks are sent: apart from the requests, so that the no-op servers load nothing they do not need.

export const SERVICE = "envoy.service.auth.v3.Authorization";
export const CHECK_PATH = `/${SERVICE}/Check`;
export const JSON_PATH = "/v1/flowcontrol/checkhttp";
