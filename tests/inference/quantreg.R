# Standard errors and tests of R quantreg for a CSV with columns y, w and x...: Rscript quantreg.R FILE tau weighted
suppressMessages(library(quantreg))
given <- commandArgs(trailingOnly = TRUE)
d <- read.csv(given[1]); tau <- as.numeric(given[2]); weighted <- given[3] == "1"
columns <- setdiff(names(d), c("y", "w"))
formula <- as.formula(paste("y ~", paste(columns, collapse = "+")))
method <- if (nrow(d) > 20000) "fn" else "br"
fit <- suppressWarnings(if (weighted) rq(formula, tau, d, weights = d$w, method = method) else rq(formula, tau, d, method = method))
show <- function(name, values) cat(name, format(values, digits = 15), "\n")
show("coefficients", coef(fit))
for (se in c("iid", "nid", "ker")) show(se, suppressWarnings(summary(fit, se = se)$coefficients[, 2]))
show("bofinger", suppressWarnings(summary(fit, se = "nid", hs = FALSE)$coefficients[, 2]))
show("p", suppressWarnings(summary(fit, se = "nid")$coefficients[, 4]))
if (!weighted) {
  show("pseudo", 1 - fit$rho / suppressWarnings(rq(y ~ 1, tau, d))$rho)
  if (nrow(d) <= 500) show("rank", summary(fit, se = "rank", alpha = 0.05)$coefficients[, 2:3])
  other <- suppressWarnings(rq(formula, 0.7, d, method = method))
  test <- suppressWarnings(anova(fit, other))
  show("anova", as.numeric(unlist(test$table[1, ])))
}
