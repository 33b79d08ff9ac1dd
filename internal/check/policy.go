package check

import (
	"context"
	"fmt"

	"kusto-agent/internal/config"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/schema"
)

// policies looks for a policy that allows streaming ingestion into the table: that of the table,
// else that of the database.
func (v *view) policies() {
	if v.refused == nil {
		v.tell("policy", OK, "streaming ingestion is allowed", "")
		return
	}
	if cluster, table := v.refused.StreamingOff(); cluster || table {
		return // the service said so itself, which the verdict tells
	}
	holds, own := v.table.Streaming()
	of := "database " + kusto.EntityName(v.in.Database)
	if own {
		of = "table " + kusto.EntityName(v.in.Table)
	}
	allow := "allow it\n" + schema.EnableStreaming(v.in.Table) + "\n" + schema.ClearCache
	switch err := v.table.PolicyErr; {
	case err != nil:
		f := v.c.named(failed(Finding{ID: "policy", Input: v.in.Name, Where: v.where()}, err))
		f.Severity, f.Class = Warning, Plain
		f.What = "could not look at the policy of streaming ingestion, which need not be wrong: " + f.What
		v.add(f)
	case holds == schema.On:
		v.tell("policy", OK, "streaming ingestion is allowed by the "+of, "")
	case holds == schema.Off:
		v.tell("policy", Error, "streaming ingestion is not allowed by the "+of, allow)
	default:
		v.tell("policy", Warning, "neither the table nor its database has a policy of streaming ingestion, which only Fabric does without", allow)
	}
}

// updates reports update policies of the table: the rows that they make count against the size
// limit of a request, and if one fails, the request may fail.
func (v *view) updates(ctx context.Context) {
	enabled, err := v.reader(v.in.Database).Updates(ctx, v.in.Table)
	if err != nil {
		return // it is the table's own business, and nobody needs it to send
	}
	if most := config.DefaultConfig().Batch.MaxSize; enabled > 0 && v.in.Batch.MaxSize*2 > most {
		v.tell("policy.update", Warning, fmt.Sprintf("the table feeds others by update policies, whose rows count in the 4 MB of a request; batch.max_size is %v", v.in.Batch.MaxSize),
			fmt.Sprintf("set batch: {max_size: %v} for this input, or less if they make more than one row of one", most/4))
	}
}
