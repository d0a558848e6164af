// The definitions of what Istio, Envoy Gateway and Contour are told: files of their modules, of which nothing is built.
module sluice.test/gateways

go 1.26.7

require (
	github.com/envoyproxy/gateway v1.9.1
	github.com/projectcontour/contour v1.33.8
	istio.io/api v1.31.1
)
