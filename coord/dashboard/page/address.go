package page

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/dashboard/widget"
)

// afterParam is the parameter of a stream's address with the newest event that the page includes.
const afterParam = "after"

// liveURL returns the address of the live updates of a page.
func liveURL(own *url.URL, newest int64) string {
	q := own.Query()
	q.Set(afterParam, strconv.FormatInt(newest, 10))
	return "/live" + own.EscapedPath() + "?" + q.Encode()
}

// Address returns the address of the same page with some parameters changed; "" removes one. It always leads to the
// first page of lists.
func Address(own *url.URL, changes ...string) string {
	q := own.Query()
	q.Del(CursorParam)
	q.Del(afterParam)
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "" {
			q.Del(changes[i])
		} else {
			q.Set(changes[i], changes[i+1])
		}
	}
	path := strings.TrimPrefix(own.EscapedPath(), "/live")
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// CursorParam is the parameter of an address that selects a later page of a list.
const CursorParam = "cursor"

// FirstOf returns the address of the first page of a list, or "" if `own` is the first page.
func FirstOf(own *url.URL, parameter string) string {
	if own.Query().Get(parameter) == "" {
		return ""
	}
	return Address(own, parameter, "")
}

// NodePage returns the address of the page of a node.
func NodePage(datacenter writ.DatacenterID, id writ.NodeID) string {
	return "/nodes/" + url.PathEscape(string(datacenter)) + "/" + url.PathEscape(string(id))
}

// PathPart returns a path parameter, unescaped.
func PathPart(r *http.Request, name string) string {
	text, err := url.PathUnescape(chi.URLParam(r, name))
	if err != nil {
		return ""
	}
	return text
}

// ResourcePage returns the address of the page of a resource.
func ResourcePage(datacenter writ.DatacenterID, id writ.ResourceID) string {
	return pathOf("resources", string(datacenter), string(id.Project), string(id.Kind), id.Name)
}

// DeploymentPage returns the address of the page of a deployment.
func DeploymentPage(datacenter writ.DatacenterID, project writ.ProjectID, name string) string {
	return pathOf("deployments", string(datacenter), string(project), name)
}

func pathOf(parts ...string) string {
	path := ""
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// IsStream reports whether a request is for the live updates of a page. For such a request, a view omits data that
// needs separate requests to datacenters.
func IsStream(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/live/") }

// RunPage returns the address of the page of a run.
func RunPage(id writ.RunID) string { return "/runs/" + url.PathEscape(string(id)) }

// CallPlace returns the fragment of a call on the page of its run.
func CallPlace(seq int) string { return "#call-" + widget.Digits(seq) }
