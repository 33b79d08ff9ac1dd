package config

// keyText is what people are told of a key. Its type, its default and its
// allowed values are not here: they follow from the code.
type keyText struct {
	about       string // what it does, in sentences
	without     string // what holds without it, where that is no value
	example     string // a value, as YAML
	least, most string // the bounds of a value, in its own unit; empty: none
}

// textOf returns what people are told about the key at a path, such as inputs.batch; its fields are
// empty if nothing is known about the key.
func textOf(path string) keyText {
	if t, ok := inputTexts[path]; ok {
		return t
	}
	return keyTexts[path]
}

// keyTexts are the texts of all keys but those of an input.
var keyTexts = map[string]keyText{
	"": {about: "The configuration of the agent. Units stand in the value: 500ms, 30s, 1h30m, 7d; 64KiB, 4MB, 1GiB. In every value ${NAME}, ${NAME:-default} and ${NAME:?why it is needed} are replaced from the environment, and $$ is a dollar sign. An included file holds only inputs."},

	"cluster":                  {about: "The query URI of the cluster that inputs send to unless they name another. It goes by the name default.", without: "none; needed unless clusters has some", example: "https://mycluster.westeurope.kusto.windows.net"},
	"database":                 {about: "The database of inputs that name none, and of clusters that have none of their own.", without: "none; needed unless every input or cluster has one", example: "Logs"},
	"allow_untrusted_endpoint": {about: "Whether a token may be sent to a host outside the known domains of the service. It takes https all the same, but on this machine.", example: "true"},
	"state_dir":                {about: "The folder of all the agent must remember: positions, spool, quarantine, the control socket. One running agent locks it. A change needs a restart.", without: "$STATE_DIRECTORY, as systemd sets it, else kusto-agent-state in the current folder", example: "/var/lib/kusto-agent"},
	"app":                      {about: "The name of the application, sent to the service as x-ms-app. Up to 256 ASCII characters.", example: "kusto-agent"},
	"user":                     {about: "The name of the user, sent to the service as x-ms-user and x-ms-user-id. Up to 256 ASCII characters.", without: "none is sent", example: "logs@contoso.com"},
	"shutdown_timeout":         {about: "How long a stop may take: in that time what is under way ends, and what is unsent goes to the spool. Keep it below the TimeoutStopSec of the unit.", example: "60s"},
	"include":                  {about: "Patterns of files to read inputs from, relative to the folder of the main file. They hold inputs and nothing else, and are read in the order of their names.", without: "none", example: "[conf.d/*.yaml]"},

	"auth":                           {about: "How the agent signs in to the cluster. One of a cluster under clusters takes the place of that of the top level as a whole; nothing of it is merged. A key that the method does not use is an error; but tenant and client_id may be given with every method that signs in, since commands that are proposed name the agent by them.", example: "{tenant: contoso.onmicrosoft.com, client_id: f80da32c-108c-415c-a19e-643f461a677a, client_secret_file: kusto-agent.client-secret}"},
	"auth.method":                    {about: "The way to sign in. auto takes the first for which there is what it needs, client_secret before others. none is for a cluster on this machine.", example: "client_secret"},
	"auth.authority":                 {about: "The URL of the token service, without the tenant. Outside this machine it must be https.", without: "the one that the cluster names, of the known clouds; else https://login.microsoftonline.com", example: "https://login.microsoftonline.com"},
	"auth.tenant":                    {about: "The tenant of the application, by name or id.", without: "none; needed by client_secret and certificate", example: "contoso.onmicrosoft.com"},
	"auth.client_id":                 {about: "The id of the application, or of a user-assigned managed identity.", without: "none; needed by client_secret and certificate", example: "f80da32c-108c-415c-a19e-643f461a677a"},
	"auth.client_secret":             {about: "The secret of the application, in place of client_secret_file. Take it from the environment rather than writing it here. It is masked wherever the configuration is shown.", without: "none", example: `"${KUSTO_SECRET}"`},
	"auth.client_secret_file":        {about: "The file that holds the secret of the application. A bare name is looked up in $CREDENTIALS_DIRECTORY, where systemd puts credentials, else beside the main file.", without: "none", example: "kusto-agent.client-secret"},
	"auth.resource":                  {about: "What the token is for.", without: "the URL of the cluster", example: "https://kusto.kusto.windows.net"},
	"auth.certificate_file":          {about: "Of method certificate: the file with the certificate of the application and its key.", without: "none", example: "agent.pem"},
	"auth.certificate_password_file": {about: "Of method certificate: the file with the password of the key.", without: "none; the key has no password", example: "agent.pem.password"},
	"auth.federated_token_file":      {about: "Of method workload_identity: the file with the token of the workload.", without: "what the environment of the workload says", example: "/var/run/secrets/azure/tokens/azure-identity-token"},
	"auth.resource_id":               {about: "Of method managed_identity: a user-assigned identity by its resource id, in place of client_id.", without: "none; without client_id too it is the identity of the machine", example: "/subscriptions/…/userAssignedIdentities/agent"},
	"auth.token_file":                {about: "Of method token_file: the file with the token. It is read again when it changes. A bare name is looked up as that of client_secret_file is.", without: "none", example: "/run/kusto/token"},

	"clusters":          {about: "More clusters by names of your choice. An input goes to one with cluster: NAME; the one of the top level is called default.", without: "none", example: "{dr: {url: 'https://dr.northeurope.kusto.windows.net', auth: {method: token_file, token_file: /run/kusto/dr-token}}}"},
	"clusters.url":      {about: "The query URI of the cluster.", without: "none; needed", example: "https://dr.northeurope.kusto.windows.net"},
	"clusters.database": {about: "The database of inputs that go to this cluster and name none.", without: "database of the top level", example: "Logs"},

	"batch":              {about: "Which records leave together, in one request. An input can set any of its keys; the others hold as the top level says.", example: "{max_wait: 5s}"},
	"batch.max_size":     {about: "The most bytes of records in one request, before gzip. The service takes 4MB unless it was set otherwise.", example: "4MB", least: "1", most: "10MB"},
	"batch.max_records":  {about: "The most records in one request. 0: a request ends by size and age alone.", example: "10000", least: "0"},
	"batch.max_wait":     {about: "The longest time that a record waits for others before its batch is sent.", example: "5s", least: "0s"},
	"batch.gzip_level":   {about: "How hard requests are compressed: 1 is the fastest, 9 the smallest.", example: "6", least: "1", most: "9"},
	"batch.gzip_encoder": {about: "What compresses at gzip_level 1: auto, the agent's own encoder, which needs less than half the CPU, or klauspost, a library. Levels 2 to 9 are the library's.", example: "klauspost"},

	"send":                 {about: "How requests are made, and made again.", example: "{concurrency: 16}"},
	"send.concurrency":     {about: "The most requests under way to one cluster. auto: the agent measures which number, up to 128, gives the highest throughput. With a number, it uses fewer while the service throttles it.", example: "16", least: "1", most: "1024"},
	"send.timeout":         {about: "How long one request may take, to the end of its answer. Then its outcome is unknown, and it is made again.", example: "2m", least: "1ns"},
	"send.rate_limit":      {about: "The most bytes a second that are sent, before gzip. 0: no limit.", example: "10MB", least: "0"},
	"send.retry":           {about: "When a request is made again, and when a route counts as down.", example: "{patience: 1m}"},
	"send.retry.initial":   {about: "The pause before the second attempt of a request. Each further one is longer.", example: "1s", least: "1ns"},
	"send.retry.max":       {about: "The longest pause between two attempts. At least initial.", example: "1m"},
	"send.retry.patience":  {about: "A route that wanted to send and for this long saw nothing accepted is down: its payloads go to the spool, and one at a time is tried.", example: "1m", least: "1ns"},
	"send.expect_continue": {about: "Whether the service is asked before the body of a request is sent.", example: "true"},
	"send.proxy":           {about: "The URL of a proxy: http, https, socks5 or socks5h. A password in it is masked wherever the configuration is shown.", without: "what HTTPS_PROXY and NO_PROXY say", example: "http://proxy.contoso.com:3128"},
	"send.tls":             {about: "Which authorities to trust, and the least TLS version.", example: "{ca_file: /etc/ssl/contoso.pem}"},
	"send.tls.ca_file":     {about: "A PEM file of certificates to trust besides those of the system. It is read at the start and at each reload. A name without a folder is looked up beside the main file.", without: "the certificates of the system", example: "/etc/ssl/contoso.pem"},
	"send.tls.min_version": {about: "The oldest version of TLS that is spoken.", example: `"1.3"`},

	"spool":           {about: "Where payloads wait on disk while the service is down, and what is unsent at a stop.", example: "{max_size: 50GiB}"},
	"spool.dir":       {about: "The folder of the spool. It is for the spool alone: neither state_dir, nor its journal or quarantine, nor a folder above it. A change needs a restart.", without: "spool in state_dir", example: "/var/spool/kusto-agent"},
	"spool.max_size":  {about: "The most bytes on disk. 0: no spool; then files are read no further while the service is down.", example: "50GiB", least: "0"},
	"spool.max_age":   {about: "Older payloads are dropped, counted and logged. 0s: they are kept until sent.", example: "7d", least: "0s"},
	"spool.min_free":  {about: "How much of the disk is left free.", example: "5GiB", least: "0"},
	"spool.when_full": {about: "What happens when the spool is full. block: reading stops, and the files are the buffer. drop_oldest: the oldest payloads are dropped, counted and logged.", example: "drop_oldest"},

	"quarantine":           {about: "How much is kept of the records that were refused.", example: "{max_size: 5GiB}"},
	"quarantine.max_size":  {about: "The most bytes on disk.", example: "5GiB", least: "1"},
	"quarantine.when_full": {about: "What happens when it is full. block: a file that meets a bad record waits there while others flow. drop_oldest: the oldest records are dropped, counted and logged.", example: "drop_oldest"},

	"journal":          {about: "How much history of delivery is kept for the audit. What a restart needs is kept in any case.", example: "{max_age: 30d}"},
	"journal.max_size": {about: "The most bytes of history on disk.", example: "1GiB", least: "0"},
	"journal.max_age":  {about: "How long history is kept.", example: "30d", least: "0s"},

	"limits":            {about: "Limits on the memory and the open files of the agent.", example: "{memory: 512MiB}"},
	"limits.memory":     {about: "The most bytes of records in memory that were read and are not safe yet. At least 4 times the largest batch.max_size: 16MB, unless that is changed.", example: "512MiB"},
	"limits.open_files": {about: "The most files that are held open at one time.", example: "8192", least: "16"},

	"telemetry":                      {about: "Where the agent shows what it does, and what it logs.", example: `{listen: ""}`},
	"telemetry.listen":               {about: "The host:port of the status page, the metrics and the health endpoints. They show no records. \"\" turns them off. Where nothing is written, $KUSTO_AGENT_LISTEN is taken, if it is set. On an address that other machines reach it takes token_file, and tls or allow_plaintext. A change needs a restart.", example: "127.0.0.1:9878"},
	"telemetry.token_file":           {about: "The file with a token of 16 bytes or more, which not everyone may read. With it who asks must bring the token, as a bearer token or as the password of any user; /healthz and /readyz answer without it, but do not say why. It is needed where other machines reach listen. A new token in the file holds at once; another file needs a restart. A bare name is looked up as that of auth.client_secret_file is.", without: "none is needed", example: "telemetry.token"},
	"telemetry.tls":                  {about: "The certificate of the page, the metrics and the health endpoints, which are then at https. New content of the files holds at once; other files need a restart. Bare names are looked up as that of auth.client_secret_file is.", example: "{certificate_file: telemetry.crt, key_file: telemetry.key}"},
	"telemetry.tls.certificate_file": {about: "The certificate in PEM, with those of who vouches for it behind it.", without: "none; plain HTTP", example: "telemetry.crt"},
	"telemetry.tls.key_file":         {about: "The key of the certificate, in PEM.", without: "none", example: "telemetry.key"},
	"telemetry.allow_plaintext":      {about: "Whether the token and what it shows may cross the network without tls: for a network that is trusted, or encrypts by itself. A change needs a restart.", example: "true"},
	"telemetry.log":                  {about: "What is logged, to stderr.", example: "{level: debug}"},
	"telemetry.log.level":            {about: "The least important of what is logged.", example: "debug"},
	"telemetry.log.format":           {about: "The form of the log. auto: text on a terminal, else json. A change needs a restart.", example: "json"},
}
