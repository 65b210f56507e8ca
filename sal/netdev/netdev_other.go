//go:build !linux

package netdev

import (
	"context"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func describeHost() string { return "network namespaces need Linux" }

func missing() error {
	return writ.Errorf(writ.CodeDriverMissing, "networks need Linux")
}

func do(context.Context, *Driver, sal.Request) (sal.Outcome, error) { return sal.Outcome{}, missing() }

func connect(context.Context, *Driver, sal.Owner, []writ.Ref, bool) (string, []sal.Port, error) {
	return "", nil, missing()
}

func publish(context.Context, *Driver, sal.Owner, []catalog.Publish) ([]catalog.Published, error) {
	return nil, missing()
}

func keepPublished(context.Context, *Driver, writ.UID) ([]catalog.Published, []sal.Drift, error) {
	return nil, nil, missing()
}

func movePublished(context.Context, *Driver, sal.Owner, sal.Owner, []catalog.Publish) ([]catalog.Published, error) {
	return nil, missing()
}

func setReadiness(context.Context, *Driver, sal.Owner, sal.Readiness) error { return missing() }

func connections(context.Context, *Driver, sal.Owner) (int, error) { return 0, missing() }

// release has no effect: there are no ports.
func release(context.Context, *Driver, writ.UID) error { return nil }

func lookRights(string) (string, error)              { return "", missing() }
func lookForwarding(context.Context) (string, error) { return "", missing() }

func inNamespace(func() error) func(context.Context) (string, error) { return lookForwarding }

func tryLinks() error       { return missing() }
func tryRules() error       { return missing() }
func tryTranslation() error { return missing() }
func tryTap() error         { return missing() }
