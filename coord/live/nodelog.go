package live

import (
	"context"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// NodeLog asks a node, through its datacenter, for lines of its log.
func (v *View) NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error) {
	return Ask[api.NodeLog](ctx, v, datacenter, link.VerbNodeLog, query)
}
