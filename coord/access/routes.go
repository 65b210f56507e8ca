package access

import (
	"maps"
	"slices"
	"strings"
)

// Scope classifies a route by the callers that may use it.
type Scope int

const (
	_ Scope = iota // rejects every request
	// ForAll needs no login: the answer is public, or the handler verifies the request.
	ForAll
	// ForStrangers is like ForAll, but requests without a login take turns. A handler should use neither a disk nor
	// another server, because the next request waits for it. Rosters are the exception: new rosters with valid signatures
	// are written, and earlier rosters are read from the ledger.
	ForStrangers
	// ForSigned needs no login: the signed body identifies and authenticates its signer.
	ForSigned
	// ForReaders admits readers of at least one project; the handler filters by project.
	ForReaders
	// ForProject admits readers of the project of the run or submission in the path of an API route or page.
	ForProject
	// ForEverything admits readers of all projects.
	ForEverything
	// ForSchedulers admits readers of all projects with the right to cordon nodes. Its routes show the output of a node's
	// programs, which is for operators only.
	ForSchedulers
)

// scopes maps every route of the main listener to its scope. A test compares it with the router, and Gate.Admit rejects
// any other route.
var scopes = map[string]Scope{
	"POST /v1/logins/challenges":                             ForStrangers,
	"POST /v1/logins":                                        ForSigned,
	"POST /v1/logins/tokens":                                 ForSigned,
	"POST /v1/logins/codes":                                  ForSigned,
	"POST /v1/logins/ends":                                   ForSigned,
	"POST /v1/submissions":                                   ForSigned,
	"GET /v1/submissions/{digest}":                           ForProject,
	"GET /v1/submissions/{digest}/signed":                    ForProject,
	"POST /v1/statements":                                    ForSigned,
	"GET /v1/runs":                                           ForReaders,
	"GET /v1/runs/{run}":                                     ForProject,
	"GET /v1/runs/{run}/calls":                               ForProject,
	"GET /v1/runs/{run}/values":                              ForProject,
	"GET /v1/runs/{run}/standing":                            ForProject,
	"GET /v1/runs/{run}/logs":                                ForProject,
	"GET /v1/runs/{run}/events":                              ForProject,
	"GET /v1/events":                                         ForReaders,
	"GET /v1/roster":                                         ForStrangers,
	"POST /v1/roster":                                        ForStrangers,
	"GET /v1/roster/adoptions":                               ForReaders,
	"GET /v1/regions":                                        ForReaders,
	"GET /v1/datacenters":                                    ForReaders,
	"GET /v1/datacenters/registrations":                      ForEverything,
	"POST /v1/datacenters/registrations":                     ForAll,
	"POST /v1/datacenters/{datacenter}/plan":                 ForReaders,
	"GET /v1/datacenters/{datacenter}/nodes/{node}/standing": ForEverything,
	"GET /v1/datacenters/{datacenter}/nodes/{node}/log":      ForSchedulers,
	"GET /v1/datacenters/{datacenter}/tokens/standing":       ForEverything,
	"GET /v1/datacenters/{datacenter}/holds/standing":        ForReaders,
	"GET /v1/projects":                                       ForReaders,
	"GET /v1/nodes":                                          ForEverything,
	"GET /v1/queues":                                         ForEverything,
	"GET /v1/secrets":                                        ForReaders,
	"GET /v1/certificates":                                   ForEverything,
	"GET /v1/batches":                                        ForEverything,
	"GET /v1/tokens":                                         ForEverything,
	"GET /v1/boots":                                          ForEverything,
	"GET /v1/holds":                                          ForReaders,
	"GET /v1/resources":                                      ForReaders,
	"GET /v1/deployments":                                    ForReaders,
	"GET /v1/usage":                                          ForReaders,
	"GET /v1/link":                                           ForAll,
	"GET /healthz":                                           ForStrangers,
	"GET /readyz":                                            ForStrangers,
	"GET /metrics":                                           ForEverything, // MetricsHandler serves it without a login
	"GET /openapi.yaml":                                      ForStrangers,
	"GET /login":                                             ForStrangers,
	"POST /login":                                            ForSigned,
	"POST /logout":                                           ForAll,
	"GET /static/*":                                          ForStrangers,
	"GET /":                                                  ForReaders,
	"GET /runs/{id}":                                         ForProject,
	"GET /runs/{id}/values":                                  ForProject, // like the values and the log of the API
	"GET /runs/{id}/log":                                     ForProject,
	"GET /runs/{id}/timeline":                                ForProject,
	"GET /secrets":                                           ForReaders, // like the lists of the API
	"GET /usage":                                             ForReaders,
	"GET /stuck":                                             ForReaders,
	"GET /live/stuck":                                        ForReaders,
	"GET /failures":                                          ForReaders,
	"GET /live/failures":                                     ForReaders,
	"GET /resources":                                         ForReaders,
	"GET /live/resources":                                    ForReaders,
	"GET /resources/{datacenter}/{project}/{kind}/{name}":      ForReaders, // the view checks the project
	"GET /live/resources/{datacenter}/{project}/{kind}/{name}": ForReaders,
	"GET /deployments/{datacenter}/{project}/{name}":           ForReaders,
	"GET /live/deployments/{datacenter}/{project}/{name}":      ForReaders,
	"GET /deployments":                    ForReaders,
	"GET /live/deployments":               ForReaders,
	"GET /queues":                         ForEverything,
	"GET /live/queues":                    ForEverything,
	"GET /nodes":                          ForEverything,
	"GET /nodes/{datacenter}/{node}":      ForEverything,
	"GET /live/nodes/{datacenter}/{node}": ForEverything,
	"GET /boot":                           ForEverything,
	"GET /live/boot":                      ForEverything,
	"GET /nodes/{datacenter}/{node}/log":  ForSchedulers,
	"GET /datacenters":                    ForReaders,
	"GET /live":                           ForReaders,
	"GET /live/runs/{id}":                 ForProject,
	"GET /live/nodes":                     ForEverything,
	"GET /live/datacenters":               ForReaders,
}

// isOpen reports whether a route needs no login.
func (s Scope) isOpen() bool { return s == ForAll || s == ForStrangers || s == ForSigned }

// ScopeOf returns the scope of a route, or 0 for an unknown route.
func ScopeOf(route string) Scope { return scopes[route] }

// RouteOf returns the name of a route in the table. Some routers omit the trailing slash.
func RouteOf(method, pattern string) string { return method + " /" + strings.Trim(pattern, "/") }

// Routes lists all routes.
func Routes() []string { return slices.Sorted(maps.Keys(scopes)) }

// OpenRoutes lists the routes that need no login.
func OpenRoutes() (open []string) {
	for route, scope := range scopes {
		if scope.isOpen() {
			open = append(open, route)
		}
	}
	slices.Sort(open)
	return open
}
