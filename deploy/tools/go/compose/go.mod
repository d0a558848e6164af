// The schema of Compose files, by which deploy/compose is checked. Nothing of the module is built.
module sluice.test/compose

go 1.26.7

require github.com/compose-spec/compose-go/v2 v2.16.2
