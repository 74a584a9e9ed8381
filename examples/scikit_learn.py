"""scikit-learn: a federated method in a pipeline, a search, and scikit-learn's own metrics."""

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import classification_report, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedgeom

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = np.where(y == 1, "benign", "malignant")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

# A method has settings like an estimator's; FederatedClassifier deals rows to sites and learns over them.
learner = fedgeom.FederatedClassifier(fedgeom.Moments(space="euclidean"), n_sites=3)
print("a copy with the same settings:", clone(learner).get_params()["method"])
pipeline = make_pipeline(StandardScaler(), learner)
print("3 folds:", cross_val_score(pipeline, X_train, y_train, cv=3).round(3))

search = GridSearchCV(learner, {"method__shrinkage": [0.01, 0.3]}, cv=3).fit(X_train, y_train)
print("the best:", search.best_params_)

# What a run of your own sites yields is a classifier as well.
run = fedgeom.run("fedavg", fedgeom.split(X_train, y_train, n_sites=3), seed=0)
print(classification_report(y_test, run.model.predict(X_test)))
malignant = list(run.model.classes_).index("malignant")
print("AUC:", round(roc_auc_score(y_test == "malignant", run.model.predict_proba(X_test)[:, malignant]), 3))
