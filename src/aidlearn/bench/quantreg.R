# Rscript quantreg.R folder n p tau method repeats patience
# Fits folder/X (n x p doubles by column, intercept column included; for sfn the arrays ra, ja and ia of CSR) and folder/y;
# writes folder/coef and folder/report.
# Only the fit is timed: data loaded, garbage collected and a small warm-up fit done before.
args <- commandArgs(TRUE)
folder <- args[1]; n <- as.numeric(args[2]); p <- as.numeric(args[3])
tau <- as.numeric(args[4]); method <- args[5]; repeats <- as.integer(args[6]); patience <- as.numeric(args[7])
report <- file(file.path(folder, "report"), "w")
say <- function(...) writeLines(gsub("[\r\n]+", " ", paste(...)), report)
finish <- function(...) { say(...); close(report); quit(status = 0) }
if (!suppressWarnings(suppressPackageStartupMessages(require(quantreg)))) finish("failed quantreg is not installed")
fit <- switch(method, fn = rq.fit.fnb, pfn = rq.fit.pfn, sfn = rq.fit.sfn)
resident <- function(key) {
  status <- tryCatch(readLines("/proc/self/status"), error = function(e) character())
  line <- grep(key, status, value = TRUE)
  if (length(line)) 1024 * as.numeric(gsub("[^0-9]", "", line)) else NA
}
set.seed(0)
small <- cbind(1, rnorm(2000))
if (method == "sfn") small <- as.matrix.csr(small)
try(suppressWarnings(fit(small, rnorm(2000), tau = tau)), silent = TRUE)
read <- function(name, count, kind = "double") readBin(file.path(folder, name), kind, count)
if (method == "sfn") {
  ia <- read("ia", n + 1, "integer"); nnz <- ia[n + 1] - 1
  x <- new("matrix.csr", ra = read("ra", nnz), ja = read("ja", nnz, "integer"), ia = ia, dimension = as.integer(c(n, p)))
} else {
  x <- read("X", n * p); dim(x) <- c(n, p)
}
y <- read("y", n)
for (k in seq_len(repeats)) {
  z <- NULL
  invisible(gc())
  try(cat("5", file = "/proc/self/clear_refs"), silent = TRUE)
  before <- resident("VmRSS")
  start <- proc.time()
  z <- tryCatch(
    withCallingHandlers(fit(x, y, tau = tau), warning = function(w) {
      say("warning", conditionMessage(w)); invokeRestart("muffleWarning")
    }),
    error = function(e) finish("failed", conditionMessage(e)))
  took <- proc.time() - start
  if (k == 1) say("extra", resident("VmHWM") - before)
  say("run", took[["user.self"]] + took[["sys.self"]], took[["elapsed"]])
  if (took[["elapsed"]] > patience) break
}
say("iterations", if (method == "sfn") z$it else z$nit[1])
writeBin(as.double(if (method == "sfn") z$coef else z$coefficients), file.path(folder, "coef"))
finish("done")
