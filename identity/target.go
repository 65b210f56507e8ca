package identity

import (
	"regexp"
	"slices"
	"strings"

	"writ"
)

const (
	// AnyTarget covers all resources of the project. It needs the right to destroy in all projects.
	AnyTarget = "*"
	// MaxTargets limits the targets of a payload.
	MaxTargets = 200
	// MinTargetPrefix is the minimum length of a prefix, in characters.
	MinTargetPrefix = 3
)

// targetPattern matches a kind and a name, "volume/web-0", or a kind and a prefix of names, "volume/web-*".
var targetPattern = regexp.MustCompile(`^(?:\*|[a-z]{1,32}/(?:[a-z0-9][a-z0-9-]{0,62}|[a-z0-9][a-z0-9-]{2,61}\*))$`)

// ValidTarget reports whether text is a target: "volume/web-0", "volume/web-*" or AnyTarget.
func ValidTarget(text string) bool { return targetPattern.MatchString(text) }

// TargetOf returns the target for exactly one resource.
func TargetOf(kind writ.ResourceKind, name string) string { return string(kind) + "/" + name }

// Covered reports whether a target covers a resource.
func Covered(targets []string, kind writ.ResourceKind, name string) bool {
	return slices.ContainsFunc(targets, func(target string) bool {
		if target == AnyTarget {
			return true
		}
		prefix, isPrefix := strings.CutSuffix(target, "*")
		one := TargetOf(kind, name)
		return target == one || isPrefix && strings.HasPrefix(one, prefix)
	})
}

// Header returns a copy of the payload without texts and parameters. It shares no memory with the payload, so it is
// cheap to store.
func (p *Payload) Header() *Payload {
	h := *p
	h.Params, h.Modules, h.Script = nil, nil, File{}
	h.Cluster, h.Datacenter, h.Project = clone(p.Cluster), clone(p.Datacenter), clone(p.Project)
	h.ProjectName = clone(p.ProjectName)
	h.Signer = clone(p.Signer)
	h.Engine = clone(p.Engine)
	h.Deployment.Name = clone(p.Deployment.Name)
	h.Allow, h.Targets, h.Secrets = clones(p.Allow), clones(p.Targets), clones(p.Secrets)
	return &h
}

func clone[T ~string](s T) T { return T(strings.Clone(string(s))) }

func clones(list []string) []string {
	copied := slices.Clone(list)
	for i := range copied {
		copied[i] = strings.Clone(copied[i])
	}
	return copied
}
