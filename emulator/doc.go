// Package emulator is a strict streaming-ingest endpoint: a body it answers
// with 200 is stored whole, once per request, and a body it answers with
// anything else is not stored at all (unless a scripted fault says otherwise).
//
// It is an http.Handler, for a socket of its own ([Server.Listen]) or in
// process. It shares no code with the programs it judges: records are found
// with encoding/csv, encoding/json and an Avro library alone.
//
// # Endpoints
//
//	POST   /v1/rest/ingest/{database}/{table}?streamFormat=…&mappingName=…
//	POST   /{tenant}/oauth2/token, /{tenant}/oauth2/v2.0/token
//	GET    /{tenant}/v2.0/.well-known/openid-configuration
//	GET    /metadata/identity/oauth2/token   managed identity, as a machine in Azure has it at 169.254.169.254
//	GET    /v1/rest/auth/metadata
//	POST   /v1/rest/mgmt         management commands
//	GET, POST /v1/rest/query, /v2/rest/query
//	GET    /                     an index of the tables
//	GET    /rows?db=&table=      stored rows as JSON lines; skip=, limit=, format=text for the bytes as sent
//	GET    /counts               rows, requests and bytes per table, and totals
//	GET    /requests             the last ingest requests; limit=
//	GET    /faults               scripted faults; POST adds one or a list of them,
//	DELETE /faults, /faults/{id} takes them away and frees what they hold
//	PUT    /schema               another schema, seen after SchemaDelay
//	POST   /schema/clear         the schema cache is emptied: the newest one is seen now
//
// # Schema
//
// Without a schema every database, table and mapping exists, and rows are kept
// as they were sent. With one, everything it does not name is unknown:
//
//	{
//	  "streaming": true,
//	  "databases": {
//	    "Logs": {
//	      "streaming": true,
//	      "ingestors": ["client id"],
//	      "tables": {
//	        "App": {
//	          "streaming": true,
//	          "ingestors": ["client id"],
//	          "columns": "ts:datetime, level:string, took:real",
//	          "update": "[{\"IsEnabled\": true, \"Source\": \"Raw\", \"Query\": \"Raw\"}]",
//	          "mappings": [
//	            {"name": "App_json", "kind": "Json", "columns": [
//	              {"column": "ts", "path": "$.time"}, {"column": "level", "path": "$['log level']"}]},
//	            {"name": "App_csv", "kind": "Csv", "columns": [{"column": "ts", "ordinal": 0}]},
//	            {"name": "App_avro", "kind": "Avro", "columns": [
//	              {"column": "ts", "field": "time"}, {"column": "level", "path": "$.log.level"}]}
//	          ]
//	        }
//	      }
//	    }
//	  }
//	}
//
// "streaming" is the switch of the cluster and the policy of a database or a
// table; a table without one follows its database, and what is left out is on.
// "ingestors" limits who may write, by the client id of the token; left out,
// everyone may, and a table's own list stands instead of its database's. A
// table without "columns" keeps its rows as they were sent. "update" is an update
// policy that is shown and not run. A mapping without
// "columns" is the identity: by name for JSON and Avro, by position for the rest.
//
// "open": true has what is not named exist too; so it is without a schema, and for
// what commands make there. "any_database": true has every database exist, empty and
// without streaming ingestion, and of tables and mappings only what commands make.
//
// "viewers" and "admins" of a database limit who may read and who may change, as
// "ingestors" does who may write.
//
// # Commands and queries
//
// Commands read and change the schema: databases, tables, columns, mappings, the
// streaming policy, principals, statistics and failures of streaming ingestion.
// They and queries see a change at once; ingestion sees it after SchemaDelay, or
// when .clear … cache streamingingestion schema was sent. docs/kql.md names the subset
// of the query language that is known; all else is an error. Results come in both
// versions, and as fragments or progressively where an option asks for that.
//
// # Faults
//
// A fault is what happens to requests that match it; see [Fault]. As JSON:
//
//	{
//	  "match": {"kind": "ingest | query | mgmt | token | metadata", "database": "Logs", "table": "App", "format": "JSON",
//	            "mapping": "App_json", "request_id": "prefix", "contains": "in the decoded body"},
//	  "skip": 2, "times": 3, "fraction": 0.5,
//	  "when": "arrival | mid_body | before_commit | after_commit",
//	  "delay": "1.5s", "hang": true, "reset": true,
//	  "status": 503, "code": "…", "message": "…", "permanent": false,
//	  "as": "json | text | html | empty | junk", "body": "…", "content_type": "…",
//	  "header": {"Retry-After": "3"},
//	  "truncate": true, "size": 1000000, "trickle": "10ms"
//	}
//
// # What it does not do
//
// Update policies, queued ingestion, and bodies that name a blob (sourceKind=uri).
package emulator
