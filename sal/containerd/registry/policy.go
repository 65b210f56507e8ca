package registry

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"writ"
)

// Policy lists the registries that images may come from, each with its mirrors in their order. A mirror is
// "https://HOST" or "https://HOST:PORT".
type Policy struct {
	mirrors map[string][]string
	named   bool // the operator named the registries, so they may be at any address
}

// Defaults are the registries of a node whose operator names none.
var Defaults = []string{"docker.io", "ghcr.io", "quay.io", "registry.k8s.io"}

// ParsePolicy reads the values of a flag, "docker.io" or "ghcr.io=https://mirror.example"; a registry may have several
// mirrors. Without values it returns the Defaults. The single value "none" permits no registry.
func ParsePolicy(values []string) (Policy, error) {
	p := Policy{mirrors: make(map[string][]string), named: len(values) > 0}
	if slices.Equal(values, []string{"none"}) {
		return p, nil
	}
	if len(values) == 0 {
		values = Defaults
	}
	for _, value := range values {
		host, mirror, has := strings.Cut(value, "=")
		if !isHost(host) {
			return p, writ.Errorf(writ.CodeUsage, "%q is not the host of a registry", host).
				WithHint("--registry takes a host like docker.io or registry.example:5000; or only: none")
		}
		if has && !isMirror(mirror) {
			return p, writ.Errorf(writ.CodeUsage, "%q is not a mirror of %s", mirror, host).
				WithHint("a mirror is named like https://mirror.example:5000, without a path")
		}
		mirrors := p.mirrors[host]
		if has && !slices.Contains(mirrors, mirror) {
			mirrors = append(mirrors, mirror)
		}
		p.mirrors[host] = mirrors
	}
	return p, nil
}

// isHost reports whether a text is a registry as a full reference names it.
func isHost(text string) bool {
	named, err := reference.ParseNormalizedNamed(text + "/a/b")
	return err == nil && reference.Domain(named) == text
}

func isMirror(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && *u == url.URL{Scheme: u.Scheme, Host: u.Host}
}

// Allows reports whether images may come from a registry.
func (p Policy) Allows(registry string) bool {
	_, ok := p.mirrors[registry]
	return ok
}

// Hosts returns the permitted registries, sorted.
func (p Policy) Hosts() []string { return slices.Sorted(maps.Keys(p.mirrors)) }

// servers returns the hosts and ports that the operator named: registries and mirrors.
func (p Policy) servers() (all []string) {
	add := func(host string) {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "443")
		}
		all = append(all, host)
	}
	for registry, mirrors := range p.mirrors {
		if p.named {
			add(registry)
		}
		for _, mirror := range mirrors {
			add(strings.TrimPrefix(mirror, "https://"))
		}
	}
	return all
}
