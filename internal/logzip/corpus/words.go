package corpus

import "strings"

func list(s string) []string { return strings.Fields(s) }

var (
	words = list(`request the for failed of connection to served user in timeout cache with retry not from found session
		order was payment after database token on expired upstream response by invalid closed queue message lock is
		worker started stopped pool reached limit slow query index missing partition leader elected follower lost
		heartbeat sent received bytes checksum mismatch written flushed segment compaction finished memory pressure
		throttled rejected accepted customer profile updated address deleted image uploaded thumbnail generated email
		delivered bounced webhook called subscription renewed cancelled invoice created refund issued stock reserved
		shipment scheduled carrier label printed search results ranked feature flag evaluated experiment assigned
		bucket replica promoted snapshot restored backup verified certificate rotated secret loaded configuration
		reloaded endpoint registered health check passed degraded recovered circuit opened half-open consumer group
		rebalanced offset committed topic created schema evolved migration applied rollback transaction deadlock
		detected victim chosen statement cancelled vacuum running checkpoint complete autoscaler desired replicas
		increased node drained pod evicted volume attached mounted quota exceeded namespace terminating`)
	services = list(`checkout catalog gateway payments users search inventory mailer ledger-api recommendations shipping
		pricing auth-proxy sessions images reports webhooks feature-flags notifications audit`)
	levels  = list(`info info info info debug warn error trace`)
	methods = list(`GET GET GET POST PUT DELETE PATCH HEAD OPTIONS`)
	paths   = list(`/api/v1/orders /api/v1/users /healthz /api/v2/catalog/items /static/js/app.js /login /api/v1/cart
		/api/v1/payments/intents /favicon.ico /api/v2/search /metrics /static/css/site.css /images/banner.webp
		/api/v1/sessions /admin/reports /api/v1/webhooks/stripe /robots.txt /wp-login.php /api/v2/recommendations
		/.well-known/openid-configuration`)
	statuses = list(`200 200 200 304 201 204 404 302 400 401 500 403 502 503 429 499`)
	hosts    = list(`web-1 web-2 db-primary cache-3 worker-07 edge-fra-2 edge-ams-1 batch-12 node-a4f2 ip-10-3-4-17`)
	agents   = []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
		"Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
		"kube-probe/1.30", "curl/8.5.0", "Go-http-client/2.0", "python-requests/2.32.3",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "okhttp/4.12.0",
	}
	classes = list(`com.contoso.orders.OrderService com.contoso.orders.OrderRepository com.contoso.web.RequestFilter
		org.springframework.web.servlet.DispatcherServlet org.springframework.aop.framework.CglibAopProxy
		org.hibernate.engine.jdbc.internal.ResultSetReturnImpl com.zaxxer.hikari.pool.HikariPool
		java.util.concurrent.ThreadPoolExecutor java.base/java.lang.Thread io.netty.channel.nio.NioEventLoop
		com.contoso.payments.gateway.StripeClient org.apache.kafka.clients.consumer.internals.Fetcher
		org.postgresql.jdbc.PgPreparedStatement com.contoso.common.retry.RetryTemplate
		io.grpc.internal.ServerImpl com.fasterxml.jackson.databind.deser.BeanDeserializer`)
	calls      = list(`invoke execute doFilter handle run apply get call process executeQuery poll dispatch lambda$submit$3 proceed`)
	exceptions = list(`java.lang.NullPointerException java.sql.SQLTransientConnectionException java.util.concurrent.TimeoutException
		java.lang.IllegalStateException org.springframework.dao.DataIntegrityViolationException java.net.SocketTimeoutException
		com.contoso.orders.OrderNotFoundException`)
	namespaces = list(`default kube-system payments ingress-nginx monitoring checkout cert-manager argocd data-platform`)
	resources  = list(`pods configmaps secrets deployments leases endpoints services nodes replicasets events`)
	verbs      = list(`get list watch update patch create delete`)
	cities     = list(`Berlin London Praha Zürich Łódź Paris Oslo Wien Málaga Köln Graz Gdańsk Brno`)
	programs   = list(`sshd kernel systemd CRON postfix/smtpd dockerd kubelet NetworkManager sudo dhclient`)
)

// foreign are messages in several scripts.
var foreign = []string{
	"Die Verbindung zum Datenbankserver wurde unerwartet geschlossen",
	"Größe der Warteschlange überschritten, Auftrag wird später ausgeführt",
	"Соединение с сервером базы данных потеряно, повторная попытка",
	"Пользователь не найден в каталоге", "Время ожидания ответа истекло",
	"データベース接続がタイムアウトしました", "注文を受け付けました", "ユーザー認証に失敗しました",
	"请求处理完成", "数据库连接超时，正在重试", "库存不足，无法创建订单", "用户登录成功",
	"तृटि: अनुरोध का समय समाप्त", "사용자 세션이 만료되었습니다", "Η σύνδεση απέτυχε",
	"La connexion a été refusée par l'hôte distant", "Não foi possível abrir o ficheiro de configuração",
	"🚀 deploy finished", "⚠️ disk usage above threshold", "Błąd odczytu pliku konfiguracji",
}
