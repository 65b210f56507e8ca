package nodes

import (
	"context"
	"net/http"
	"strings"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/widget"
	"writ/internal/hidden"
	"writ/supervisor/link"
)

// maxNodeLines limits the shown lines of the log of a node.
const maxNodeLines = 50

// nodeLog is the page with the last lines of the log of a node. Each load of the page requests them from the node.
func (d *Pages) nodeLog(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	n, err := d.nodeOf(ctx, writ.DatacenterID(page.PathPart(r, "datacenter")), writ.NodeID(page.PathPart(r, "node")))
	if err != nil {
		return nil, err
	}
	log, err := d.LiveView.NodeLog(ctx, n.Datacenter, link.LogOfNode{Node: n.ID, Lines: maxNodeLines})
	if err != nil {
		return nil, err
	}
	data := nodeLogPage{NodeLog: log, Page: page.NodePage(n.Datacenter, n.ID), Name: n.Name, Word: nodeWord(n)}
	for _, l := range log.Lines[max(len(log.Lines)-maxNodeLines, 0):] {
		l.Text, l.Source = widget.Cut(hidden.Escape(l.Text), widget.MaxValue), hidden.Escape(l.Source)
		data.Shown = append(data.Shown, nodeLine{l, l.Boot != log.Boot})
	}
	return &page.Page{Title: "Log of " + n.Name, Nav: "nodes", Body: data}, nil
}

// nodeLogPage is the body of the page. Word is the node in commands, "" if no command can name it.
type nodeLogPage struct {
	api.NodeLog
	Page, Name, Word string
	Shown            []nodeLine
}

// nodeLine is a line of the log. Earlier is set for lines from before the last boot of the machine.
type nodeLine struct {
	api.NodeLine
	Earlier bool
}

// Why returns the level of a warning or error, "" for other lines.
func (l nodeLine) Why() string {
	if l.Level == "warn" || l.Level == "error" {
		return strings.ToUpper(l.Level)
	}
	return ""
}
