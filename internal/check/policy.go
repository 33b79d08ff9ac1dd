package check

import (
	"context"
	"fmt"

	"kusto-agent/internal/config"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
)

// policies adds a finding on the streaming ingestion policy of the table, or else of its database.
// If the service accepted the test request, the policy allows it. If the service itself said that
// streaming is off, verdict reports that.
func (v *view) policies() {
	if v.refused == nil {
		v.tell("policy", OK, "streaming ingestion is allowed", "")
		return
	}
	if cluster, table := v.refused.StreamingOff(); cluster || table {
		return // verdict reports what the service said
	}
	holds, own := v.table.Streaming()
	of := "database " + kusto.EntityName(v.in.Database)
	if own {
		of = "table " + kusto.EntityName(v.in.Table)
	}
	allow := "allow it\n" + schema.EnableStreaming(v.in.Table) + "\n" + schema.ClearCache
	switch err := v.table.PolicyErr; {
	case err != nil:
		v.unseen("policy", "the policy of streaming ingestion", err)
	case holds == schema.On:
		v.tell("policy", OK, "streaming ingestion is allowed by the "+of, "")
	case holds == schema.Off:
		v.tell("policy", Error, "streaming ingestion is not allowed by the "+of, allow)
	default:
		v.tell("policy", Warning, "neither the table nor its database has a policy of streaming ingestion, which only Fabric does without", allow)
	}
}

// updates adds a warning if the table has update policies and batches are large. The rows that
// update policies make count against the size limit of a request, and if one fails, the request may
// fail.
func (v *view) updates(ctx context.Context) {
	enabled, err := v.reader(v.in.Database).Updates(ctx, v.in.Table)
	if err != nil {
		return // update policies need not be readable to send records
	}
	if most := config.DefaultConfig().Batch.MaxSize; enabled > 0 && v.in.Batch.MaxSize*2 > most {
		v.tell("policy.update", Warning, fmt.Sprintf("the table feeds others by update policies, whose rows count in the 4 MB of a request; batch.max_size is %v", v.in.Batch.MaxSize),
			fmt.Sprintf("set batch: {max_size: %v} for this input, or less if they make more than one row of one", most/4))
	}
}
