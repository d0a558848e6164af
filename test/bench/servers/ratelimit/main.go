// The rate limit service of the Envoy project, as its own command starts it.
package main

import (
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
)

func main() {
	service := runner.NewRunner(settings.NewSettings())
	service.Run()
}
