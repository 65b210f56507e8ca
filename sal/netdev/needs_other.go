//go:build !linux

package netdev

import "context"

func lookRights(string) (string, error)              { return "", missing() }
func lookForwarding(context.Context) (string, error) { return "", missing() }

func inNamespace(func() error) func(context.Context) (string, error) { return lookForwarding }

func tryLinks() error       { return missing() }
func tryRules() error       { return missing() }
func tryTranslation() error { return missing() }
func tryTap() error         { return missing() }
