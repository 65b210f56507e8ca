package front

import (
	"net/http"
	"strings"

	"writ/supervisor/link"
)

const (
	// listCost is the cost of a list, or of a page with lists, in requests: it reads up to a thousand rows, or asks
	// datacenters.
	listCost = 10
	// bootsCost is the cost of the list of booting machines: there may be thousands, which a link carries in pages.
	bootsCost = 100
	// Each planBytes of a plan, or bodyBytes of another body, cost one more request. A plan of two thousand calls has
	// 300 KiB.
	planBytes = 1 << 10
	bodyBytes = 16 << 10
	// unknownBody is the cost of a body of unknown length.
	unknownBody = 64
)

// costOf returns the cost of a request, in simple requests.
func costOf(r *http.Request) int {
	rest, isAPI := strings.CutPrefix(r.URL.Path, "/v1/")
	switch {
	case r.Method == http.MethodPost && r.ContentLength < 0:
		return unknownBody
	case r.Method == http.MethodPost && PlanPath.MatchString(r.URL.Path):
		return listCost + int(r.ContentLength/planBytes)
	case r.Method == http.MethodPost:
		return 1 + int(r.ContentLength/bodyBytes)
	case isAPI && rest == "boots":
		return bootsCost
	case isAPI && strings.Contains(rest, "/"), strings.HasPrefix(r.URL.Path, "/static/"), r.URL.Path == link.Path:
		return 1
	}
	return listCost
}
